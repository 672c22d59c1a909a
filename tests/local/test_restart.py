"""`headway run` is killed by kill -9, and a second start goes on where the first was."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.core.states import State
from headway.local.shim import descendants
from headway.record.resume import left_behind

pytestmark = pytest.mark.timeout(290)

FILE = """
nodes: [{name: left, cpu: 500m}, {name: right, cpu: 500m}]
jobs:
  - {name: quick, cpu: 200m, steps: 10, seconds: 1, command: [python, count.py, "10"]}
  - {name: long, cpu: 200m, steps: 160, seconds: 8, command: [python, count.py, "160"]}
  - name: pair
    steps: 100
    command: [python, count.py, "100"]
    roles:
      chief: {cpu: 100m}
      worker: {cpu: 100m, after: [chief], command: [sleep, "600"]}
"""


@pytest.fixture
def folder(scripts: Path) -> Path:
    (scripts / "jobs.yaml").write_text(FILE)
    source = (scripts / "count.py").read_text()
    (scripts / "count.py").write_text(source.replace("p.report(step", "save(step); p.report(step"))
    return scripts


def _command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "headway", "run", "jobs.yaml", "--json", "--policy", "first-fit", *more]


def _wait_for(path: Path, text: str, seconds: float = 120) -> None:
    give_up = time.monotonic() + seconds
    while not (path.exists() and text in path.read_text(errors="replace")):
        assert time.monotonic() < give_up, f"no {text!r} in {path}"
        time.sleep(0.05)


def _wait_until_finished(log: Path, job: str, seconds: float = 120) -> None:
    give_up = time.monotonic() + seconds
    while True:
        left = left_behind(log)
        serial = next(serial for serial, one in left.jobs.items() if one.id == job)
        if left.last[serial].state == State.FINISHED:
            return
        assert time.monotonic() < give_up, f"{log} does not say that {job} has finished"
        time.sleep(0.1)


def test_a_second_start_goes_on_where_the_first_was_killed(folder):
    first = subprocess.Popen(_command(folder), cwd=folder, stdout=subprocess.DEVNULL)
    state = folder / ".headway/jobs"
    _wait_for(state / "output/quick/worker-0.log", "done")
    _wait_for(state / "checkpoints/long/count", "2")
    _wait_until_finished(state / "run.log", "quick")
    below = descendants(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    give_up = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in below):
        assert time.monotonic() < give_up, "an orphan is left"
        time.sleep(0.05)
    done_before = int((state / "checkpoints/long/count").read_text())

    second = subprocess.run(_command(folder), cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert second.returncode == 0, second.stderr
    result = json.loads(second.stdout)
    assert result["finished"] == result["jobs"] == 3
    starts = [int(n) for n in re.findall(r"from (\d+)", (state / "output/long/worker-0.log").read_text())]
    assert starts[0] == 0
    assert starts[1] >= done_before > 0
    assert (state / "output/quick/worker-0.log").read_text().count("from") == 1, "finished work was done again"
    replay = [sys.executable, "-m", "headway", "replay", str(state / "run.log"), "--json"]
    replayed = subprocess.run(replay, capture_output=True, text=True, timeout=200, check=False)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert json.loads(replayed.stdout)["differences"] == []


def test_ctrl_c_leaves_no_process_and_the_run_can_go_on(folder):
    first = subprocess.Popen(_command(folder), cwd=folder, stdout=subprocess.PIPE, text=True)
    _wait_for(folder / ".headway/jobs/checkpoints/long/count", "")
    below = descendants(first.pid)
    os.kill(first.pid, signal.SIGINT)
    out, _ = first.communicate(timeout=120)
    assert first.returncode == 130
    assert "continues the run" in out
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


def test_two_runs_do_not_share_a_folder(folder):
    first = subprocess.Popen(_command(folder), cwd=folder, stdout=subprocess.DEVNULL)
    try:
        _wait_for(folder / ".headway/jobs/run.log", "cycle")
        second = subprocess.run(_command(folder), cwd=folder, capture_output=True, text=True, timeout=200, check=False)
        assert second.returncode == 2
        assert "another headway run uses this folder" in second.stderr
    finally:
        first.send_signal(signal.SIGINT)
        first.wait(timeout=120)


def test_an_unfinished_run_of_another_file_is_not_overwritten(folder):
    first = subprocess.Popen(_command(folder), cwd=folder, stdout=subprocess.DEVNULL)
    _wait_for(folder / ".headway/jobs/run.log", "cycle")
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(0.5)
    (folder / "jobs.yaml").write_text(FILE.replace("160", "20"))
    second = subprocess.run(_command(folder), cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert second.returncode == 2
    assert "--fresh" in second.stderr
    assert (folder / ".headway/jobs/run.log").exists()
