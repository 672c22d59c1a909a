"""A job is asked to save by time; a killed run loses one interval at most, and says what was lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.core.job import Job, JobId, Role, Success
from headway.core.plan import Plan, Scale
from headway.core.snapshot import Snapshot
from headway.local.leaving import NOT_BEGUN
from headway.local.settings import LocalTimeouts
from headway.local.shim import descendants
from headway.policies.registry import POLICIES

pytestmark = pytest.mark.timeout(120)
PAGE = Path(__file__).parents[2] / "docs" / "progress.md"
FIRST_FIT = POLICIES["first-fit"]()


def script_of_the_page(folder: Path) -> None:
    """The script of docs/progress.md to the letter, but for the training itself: a step takes 20 ms."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    slow = code[1].replace("# train one step", "\n        time.sleep(0.02)").replace("40", "1000")
    assert "time.sleep" in slow
    (folder / "page.py").write_text(f"import time\n{slow}")


def steps_in(log: Path) -> int:
    cycles = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"line":"cycle"')]
    return max((sample[2] for cycle in cycles for sample in cycle.get("samples", ())), default=0)


def wait_for(found, seconds: float = 60) -> None:
    give_up = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def test_kill_9_of_headway_and_script_loses_one_interval_at_most(tmp_path: Path) -> None:
    script_of_the_page(tmp_path)
    (tmp_path / "d.yaml").write_text("jobs: [{name: d, cpu: 500m, save_every: 2s, command: [python, page.py]}]")
    command, log = (
        [sys.executable, "-m", "headway", "run", "d.yaml", "--policy", "first-fit"],
        tmp_path / ".headway/d/run.log",
    )
    saved = tmp_path / ".headway/d/checkpoints/d/checkpoint.json"
    first = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_for(lambda: log.exists() and saved.exists() and steps_in(log) > json.loads(saved.read_text())["step"] + 20)
    below = descendants(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))
    came = steps_in(log)

    with (tmp_path / "said").open("w") as said:
        second = subprocess.Popen(command, cwd=tmp_path, stderr=said)
    try:
        wait_for(lambda: "goes on from step" in (tmp_path / "said").read_text())
    finally:
        second.send_signal(signal.SIGTERM)
        second.wait(60)
    told = re.search(
        r"d: it goes on from step (\d+)(?:; (\d+) steps? \((\d+) s\) w\w+ lost)?", (tmp_path / "said").read_text()
    )
    assert told is not None, (tmp_path / "said").read_text()
    step, lost, took = (int(number or 0) for number in told.groups())
    assert step > 0 < lost
    assert step + lost == came
    assert lost <= 3.5 / 0.02, "an interval is 2 s, and turns come every second"
    assert took <= 4


def saving(name: str, folder: Path, *, every: float, seconds: float = 0.0, **more: object) -> Job:
    """Counts as count.py does; a save takes so long, and it writes down when each save began and ended."""
    source = (folder / "count.py").read_text()
    noted = "began = time.time()\n    time.sleep(SECONDS)\n    part = file".replace("SECONDS", str(seconds))
    source = source.replace("part = file", noted).replace(
        "part.replace(file)", "part.replace(file)\n    print('save', began, time.time(), step, flush=True)"
    )
    (folder / f"{name}.py").write_text(source)
    return a_local_job(name, folder, f"{name}.py", "60", save_every=every, **more)


def saves_of(run: Run, job: str) -> list[tuple[float, float, int]]:
    lines = [line.split() for line in run.output(job).splitlines() if line.startswith("save")]
    return [(float(began), float(ended), int(step)) for _, began, ended, step in lines]


def test_two_jobs_are_never_asked_at_once_and_both_are(scripts: Path) -> None:
    jobs = [saving(name, scripts, every=0.3, seconds=0.05) for name in ("a", "b")]
    run = Run(scripts, jobs).go(FIRST_FIT)
    a, b = saves_of(run, "a"), saves_of(run, "b")
    assert a
    assert b
    assert not any(one[0] < other[1] and other[0] < one[1] for one in a for other in b)


def test_a_dear_save_is_rare_and_never_means_never(scripts: Path) -> None:
    jobs = [saving("dear", scripts, every=0.3, seconds=0.5), saving("never", scripts, every=0.0)]
    run = Run(scripts, jobs).go(FIRST_FIT)
    assert len(saves_of(run, "dear")) == 1, "0.5 s is 2 % of 25 s, and it trains for 3"
    assert saves_of(run, "never") == []


def test_a_job_that_grows_all_the_time_is_asked_as_often(scripts: Path) -> None:
    """A replica is added each time it has run for 1.2 s: the interval counts from the begin of the attempt."""
    role = Role(name="worker", request=(("cpu", 100),), command=(sys.executable, "grows.py", "240"), max=9)
    job = saving("grows", scripts, every=3.0, roles=(role,), success=Success(any_replica=True))
    run, grown = Run(scripts, [job]), [0, 0.0]

    def policy(snapshot: Snapshot) -> Plan:
        running = snapshot.jobs.running()
        plan = FIRST_FIT(snapshot)
        if not len(running):
            grown[1] = snapshot.now
        elif grown[0] < 8 and snapshot.now >= grown[1] + 1.2:
            nodes = snapshot.placements[int(running[0])].nodes[0]
            plan, grown[0] = Plan((Scale(JobId("grows"), "worker", (*nodes, len(nodes) % 2)),)), grown[0] + 1
        return replace(plan, until=snapshot.now + 0.1)

    run.go(policy)
    assert grown[0] >= 3
    assert len(saves_of(run, "grows")) >= 2


def test_a_save_that_fails_is_told_and_training_goes_on(scripts: Path) -> None:
    job = saving("bad", scripts, every=0.3)
    (scripts / "bad.py").write_text(
        (scripts / "bad.py").read_text().replace("part.replace(file)", "raise OSError('no room')")
    )
    run = Run(scripts, [job]).go(FIRST_FIT)
    assert run.state("bad") == "FINISHED"
    assert "it could not save and trains on: OSError: no room" in run.notes["bad"]


def test_who_does_not_answer_keeps_nobody_else_from_saving(scripts: Path) -> None:
    """`deaf` says that it can save and never reports: it is asked first, and holds the disk for the timeout only."""
    source = (scripts / "count.py").read_text()
    (scripts / "deaf.py").write_text(source.replace("p.report(step, loss=1.0 / step)", "pass"))
    deaf = a_local_job("deaf", scripts, "deaf.py", "80", save_every=0.1)
    run = Run(scripts, [deaf, saving("fine", scripts, every=0.3)], LocalTimeouts(save=0.5, stop=30, start=90)).go(
        FIRST_FIT
    )
    assert saves_of(run, "fine")
    assert any("it has not answered a request to save" in note for note in run.notes["deaf"])


@pytest.mark.parametrize(("start", "why"), [(90, NOT_BEGUN), (0, "it does not report, so it could not be asked to")])
def test_who_leaves_before_it_has_connected_had_not_begun(scripts, monkeypatch, start: float, why: str) -> None:
    monkeypatch.setattr("headway.local.gang.UP_SECONDS", 0.0)
    (scripts / "imports.py").write_text("import time\ntime.sleep(60)\n")
    run = Run(scripts, [a_local_job("a", scripts, "imports.py")], LocalTimeouts(save=30, stop=30, start=start))

    def policy(snapshot: Snapshot) -> Plan:
        if len(snapshot.jobs.running()):
            run.cluster.leave()
        return FIRST_FIT(snapshot)

    began = time.monotonic()
    run.go(policy)
    assert run.cluster.left[JobId("a")].why == why
    assert time.monotonic() - began < 20, "nothing is waited for: there is nothing to save"
