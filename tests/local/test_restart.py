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
from headway.record.lines import CycleLine
from headway.record.log import read
from headway.record.metrics import Tally
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


def _wait_until_gone(below: list[int], seconds: float = 60) -> None:
    give_up = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in below):
        assert time.monotonic() < give_up, "an orphan is left"
        time.sleep(0.05)


def test_a_second_start_goes_on_where_the_first_was_killed(folder):
    first = subprocess.Popen(_command(folder), cwd=folder, stdout=subprocess.DEVNULL)
    state = folder / ".headway/jobs"
    _wait_for(state / "output/quick/worker-0.log", "done")
    _wait_for(state / "checkpoints/long/count", "2")
    _wait_until_finished(state / "run.log", "quick")
    below = descendants(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    _wait_until_gone(below)
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
    first = subprocess.Popen(_command(folder), cwd=folder, stderr=subprocess.PIPE, text=True)
    _wait_for(folder / ".headway/jobs/checkpoints/long/count", "")
    below = descendants(first.pid)
    os.kill(first.pid, signal.SIGINT)
    _, told = first.communicate(timeout=120)
    assert first.returncode == 130
    assert "continues the run" in told
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


COUNTING = "  - {name: NAME, cpu: 200m, command: [python, count.py, 'TOTAL']}\n"


def _write(folder: Path, **totals: int) -> None:
    jobs = [COUNTING.replace("NAME", name).replace("TOTAL", str(total)) for name, total in totals.items()]
    (folder / "jobs.yaml").write_text("nodes: [{name: here, cpu: 1}]\njobs:\n" + "".join(jobs))


def _stop(folder: Path, number: signal.Signals, job: str, step: int) -> str:
    """Starts a run, sends the signal when the job has reported the step; returns what it said."""
    run = subprocess.Popen(_command(folder), cwd=folder, stderr=subprocess.PIPE, text=True)
    _wait_for_step(folder / ".headway/jobs/run.log", job, step)
    run.send_signal(number)
    _, told = run.communicate(timeout=120)
    assert run.returncode == 130, told
    return told


def _wait_for_step(log: Path, job: str, step: int, seconds: float = 120) -> None:
    give_up = time.monotonic() + seconds
    while not log.exists() or not any(
        isinstance(line, CycleLine) and any(name == job and reached >= step for name, _, reached, *_ in line.samples)
        for line in read(log)
    ):
        assert time.monotonic() < give_up, f"{job} has not reached step {step}"
        time.sleep(0.1)


def test_the_first_signal_saves_and_the_next_start_goes_on_from_there(scripts):
    """The script saves only when it is asked. Ctrl-C, and the signal of `docker stop`."""
    state, told = scripts / ".headway/jobs", ""
    saved, trained = [0], [0.0]
    for number in (signal.SIGINT, signal.SIGTERM):
        _write(scripts, count=1000)
        told = _stop(scripts, number, "count", saved[-1] + 3)
        assert "saved: count" in told
        saved.append(int((state / "checkpoints/count/count").read_text()))
        change = left_behind(state / "run.log").last[0]
        assert change.saved == change.attained
        trained.append(change.attained)
    assert 0 < saved[1] < saved[2]
    assert "goes on: count" in told
    starts = [int(n) for n in re.findall(r"from (\d+)", (state / "output/count/worker-0.log").read_text())]
    assert starts == saved[:2]
    assert 0 < trained[1] < trained[2], "the time of both runs counts"
    tally = Tally(courses=True)
    for line in read(state / "run.log"):
        tally(line)
    running = [span for span in tally.courses[0].spans if span[2] is State.RUNNING]
    waiting = [span for span in tally.courses[0].spans if span[2] is State.WAITING]
    assert len(running) == 2
    assert any(running[0][1] <= begun < ended <= running[1][0] for begun, ended, *_ in waiting), "Headway was away"
    replay = [sys.executable, "-m", "headway", "replay", str(state / "run.log"), "--json"]
    replayed = subprocess.run(replay, capture_output=True, text=True, timeout=200, check=False)
    assert json.loads(replayed.stdout)["differences"] == []


def test_the_second_signal_ends_at_once(scripts):
    source = (scripts / "count.py").read_text()
    (scripts / "count.py").write_text(
        source.replace("    part =", "    print('saving', flush=True); time.sleep(600)\n    part =")
    )
    _write(scripts, count=1000)
    run = subprocess.Popen(_command(scripts), cwd=scripts, stderr=subprocess.PIPE, text=True)
    _wait_for_step(scripts / ".headway/jobs/run.log", "count", 3)
    below = descendants(run.pid)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)  # so soon, it is the same wish
    _wait_for(scripts / ".headway/jobs/output/count/worker-0.log", "saving")
    time.sleep(1.0)
    assert run.poll() is None
    begun = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, told = run.communicate(timeout=120)
    assert time.monotonic() - begun < 20, "it did not wait until the job has saved"
    assert run.returncode == 130
    assert "stopping" in told
    assert "ended at once" in told
    _wait_until_gone(below)


def test_an_edited_file_goes_on_with_the_jobs_that_are_the_same(folder):
    state = folder / ".headway/jobs"
    _write(folder, same=60, gone=1000, other=1000)
    first = subprocess.Popen(_command(folder), cwd=folder, stderr=subprocess.DEVNULL)
    for job in ("same", "gone", "other"):
        _wait_for(state / f"checkpoints/{job}/count", "")
    below = descendants(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    _wait_until_gone(below)
    _write(folder, same=60, other=5, new=5)
    second = subprocess.run(_command(folder), cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert second.returncode == 0, second.stderr
    for said in (
        "goes on: same",
        "goes on from its checkpoint (fresh: true starts afresh): other",
        "is new: new",
        "is cancelled; its checkpoint stays: gone",
    ):
        assert said in second.stderr
    assert json.loads(second.stdout)["finished"] == json.loads(second.stdout)["jobs"] == 3
    starts = re.findall(r"from (\d+)", (state / "output/same/worker-0.log").read_text())
    assert len(starts) == 2
    assert int(starts[1]) > 0
    assert re.findall(r"from (\d+)", (state / "output/other/worker-0.log").read_text())[1] != "0"
    assert (state / "checkpoints/gone/count").exists()
    assert not (state / "aside").exists()
