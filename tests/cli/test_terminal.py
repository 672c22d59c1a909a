"""A real `headway run` of thirty jobs in a real terminal of 80 columns and 24 lines: what a person sees of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headway

TMUX = shutil.which("tmux")
pytestmark = pytest.mark.skipif(TMUX is None, reason="no tmux on this machine: `make terminal` installs it")
WAIT_SECONDS = 60.0

TRAIN = """
import sys, time
from pathlib import Path
from headway import progress

with progress.track(total_steps=400, save=lambda step: None) as p:
    for step in range(1, 401):
        p.report(step, loss=2.0 / step)
        while step == 200 and not Path("go").exists():
            time.sleep(0.02)
            p.poll(step)
"""
SHORT, BAD = "[sh, -c, 'exit 0']", "[sh, -c, 'echo no batch 17; exit 3']"
LONG = f"[{sys.executable}, train.py]"


def jobs_file() -> str:
    """24 that end at once, one of them badly; two that train until the file `go` is there; four that wait."""
    lines = ["nodes: [{name: only, cpu: 1, memory: 1Gi}]", "jobs:"]
    for number in range(30):
        command = BAD if number == 7 else LONG if number in (24, 25) else SHORT
        cpu = "40m" if number < 24 else "500m"
        deadline = {24: ", deadline: 3h", 29: ", deadline: 0.1s"}.get(number, "")
        lines.append(f"  - {{name: resnet-lr-{number:02}, cpu: {cpu}, memory: 20Mi, command: {command}{deadline}}}")
    return "\n".join(lines) + "\n"


class Screen:
    """A terminal with its own tmux server."""

    def __init__(self, folder: Path) -> None:
        self._tmux = [str(TMUX), "-S", str(folder / "tmux.socket"), "-f", "/dev/null"]
        self._folder = folder

    def begin(self, *words: str) -> None:
        source = str(Path(headway.__file__).parents[1])
        line = f"{shlex.join([sys.executable, '-m', 'headway', *words])}; echo code=$?; sleep 600"
        given = {"PYTHONPATH": source, "PATH": os.environ["PATH"], "HOME": str(self._folder), "LANG": "C.UTF-8",
                 "XDG_STATE_HOME": str(self._folder)}  # fmt: skip
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(self._folder), line],
            env=given, check=True, timeout=30,
        )  # fmt: skip

    def look(self, *, back: int = 0) -> list[str]:
        """The lines of the screen, with so many that have scrolled away. A line that the terminal broke is one."""
        got = subprocess.run([*self._tmux, "capture-pane", "-p", "-J", "-S", str(-back)], check=True, timeout=30,
                             capture_output=True, text=True)  # fmt: skip
        return [line.rstrip() for line in got.stdout.rstrip().splitlines()]

    def when(self, true: Callable[[str], bool], *, back: int = 0) -> list[str]:
        """The screen, as soon as this is true of it."""
        last = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < last:
            lines = self.look(back=back)
            if true("\n".join(lines)):
                return lines
            time.sleep(0.05)
        raise AssertionError("\n".join([*lines, "=== all", *self.look(back=200)]))

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, timeout=30, capture_output=True)


def _both_train(text: str) -> bool:
    return text.count("200/400") == 2 and "23 finished, 1 failed" in text


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], list[str], Path]]:
    """What is on the screen while two of thirty jobs run, and all that is there at the end."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "jobs.yaml").write_text(jobs_file())
    (folder / "train.py").write_text(TRAIN)
    screen = Screen(folder)
    screen.begin("run", "jobs.yaml", "--policy", "fifo", "--no-cgroups")
    try:
        during = screen.when(_both_train)
        (folder / "go").touch()
        after = screen.when(lambda text: "code=" in text, back=400)
    finally:
        (folder / "go").touch()
        screen.end()
    return during, after, folder


def test_running_jobs_come_first_and_waiting_ones_say_why(screens):
    during, _, _ = screens
    head = next(number for number, line in enumerate(during) if line.startswith("job "))
    told = [name for name in during[head].split() if name != "done"]  # which is foreseen a while after the start
    assert told[:5] == ["job", "state", "step", "loss", "left"]
    assert "deadline" in told
    running = during[head + 2 : head + 4]
    assert [line.split()[:2] for line in running] == [[f"resnet-lr-{n}", "running"] for n in (24, 25)]
    assert all("200/400" in line and "0.01" in line for line in running), "progress"
    assert re.search(r"in 2\.9 h|in 3 h", running[0]), "its deadline"
    second = next(number for number, line in enumerate(during) if line.startswith("waiting "))
    assert second > head + 3
    waiting = [line for line in during[second + 2 :] if line.startswith("resnet")]
    assert [line.split()[0] for line in waiting] == [f"resnet-lr-{n}" for n in range(26, 30)]
    assert "needs 0.5 cpu" in waiting[0]
    assert "missed" in waiting[3]


def test_what_is_over_is_counted_and_nothing_is_cut(screens):
    during, _, _ = screens
    assert len(during) <= 24
    assert len([line for line in during if line.startswith("job ")]) == 1, "nothing is left of the table before"
    assert re.fullmatch(r"23 finished, 1 failed(; all done .*\d\d:\d\d.*)?", during[-1])
    assert not any(len(line) > 80 for line in during)


def test_the_end_tells_what_finished_when_and_what_failed(screens):
    _, after, folder = screens
    text = "\n".join(after)
    assert max(map(len, after)) <= 80, "the terminal broke no line"
    assert not [line for line in after if line.startswith(("job ", "waiting ", "───"))], "the table is gone"
    assert "…" not in text
    table = after[after.index("Jobs (seconds)") :]
    rows = {line.split()[0]: line.split() for line in table if line.startswith(" resnet")}
    assert len(rows) == 30
    assert rows["resnet-lr-24"][-2:] == ["met", "finished"]
    assert rows["resnet-lr-29"][-2:] == ["missed", "finished"]
    assert rows["resnet-lr-07"][-1] == "failed"
    told = " ".join(text.split())
    output = ".headway/jobs/output/resnet-lr-07/worker-0.log"
    failed = "resnet-lr-07 failed: worker-0 ended with exit code 3: no batch 17"
    assert f"{failed}; its output is in {output} | no batch 17" in told
    assert "no batch 17" in (folder / output).read_text()
    assert "29 of 30 jobs finished, 1 failed" in told
    assert re.search(r"deadlines 1 of 2 met; missed: resnet-lr-29 \([\d.]+ s late\)", told)
    assert "picture .headway/jobs/run.png" in told
    assert (folder / ".headway/jobs/run.png").stat().st_size > 10_000
    assert after[-1] == "code=1"
