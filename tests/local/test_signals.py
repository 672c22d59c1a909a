"""Signals from outside: kill -9 of a shim, SIGSTOP of a trainer or of a shim; and the wall clock set back."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from conftest_local import Run, a_local_job

from headway.core.draft import Draft
from headway.core.plan import Because
from headway.local import cluster as cluster_module
from headway.local import replica as replica_module
from headway.local.settings import LocalTimeouts, clock_zero
from headway.local.shim import descendants
from headway.policies.baselines.fifo import first_fit

pytestmark = pytest.mark.timeout(250)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _shim(run: Run) -> int:
    return run.cluster.roster.gangs["a"].replicas[0].process.pid


def test_a_job_whose_shim_is_killed_starts_again_from_its_checkpoint(scripts):
    below: list[int] = []

    def policy(snapshot):
        if not below and any(sample.step >= 3 for sample in snapshot.samples):
            (scripts / "state/checkpoints/a/count").write_text("197")
            below.extend(descendants(_shim(run)))
            os.kill(_shim(run), signal.SIGKILL)
        return first_fit(snapshot)

    run = Run(scripts, [a_local_job("a", scripts, "count.py", "200")])
    run.go(policy)
    assert run.state("a") == "FINISHED"
    assert run.notes["a"][0].startswith("worker-0 was killed by signal 9 (SIGKILL)")
    assert "from 197" in run.output("a")
    assert below
    assert not [pid for pid in below if _alive(pid)]


def test_a_trainer_that_is_halted_cannot_be_preempted_but_can_be_ended(scripts, monkeypatch):
    monkeypatch.setattr(replica_module, "TERMINATION_GRACE_SECONDS", 0.3)
    halted: list[int] = []

    def policy(snapshot):
        if not halted and any(sample.step >= 3 for sample in snapshot.samples):
            halted.extend(descendants(_shim(run)))
            os.kill(halted[0], signal.SIGSTOP)
        if halted and len(snapshot.jobs.running()):
            draft = Draft(snapshot)
            draft.stop(0, Because.CANCELLED if run.notes else Because.PREEMPTED)
            return draft.plan()
        return first_fit(snapshot)

    run = Run(scripts, [a_local_job("a", scripts, "count.py", "10000")], LocalTimeouts(save=0.3, stop=30, start=90))
    run.go(policy)
    assert run.notes["a"] == ["it was not stopped: it did not save within 0.3 seconds"]
    assert run.state("a") == "CANCELLED"
    assert not [pid for pid in halted if _alive(pid)]


def test_a_halted_shim_does_not_outlive_the_run(scripts, monkeypatch):
    monkeypatch.setattr(cluster_module, "CLOSE_SECONDS", 0.1)
    below: list[int] = []

    def policy(snapshot):
        if any(sample.step >= 3 for sample in snapshot.samples):
            below.extend([_shim(run), *descendants(_shim(run))])
            os.kill(_shim(run), signal.SIGSTOP)
            raise KeyboardInterrupt
        return first_fit(snapshot)

    run = Run(scripts, [a_local_job("a", scripts, "count.py", "10000")])
    with pytest.raises(KeyboardInterrupt):
        run.go(policy)
    give_up = time.monotonic() + 60
    while any(_alive(pid) for pid in below):
        assert time.monotonic() < give_up, [pid for pid in below if _alive(pid)]
        time.sleep(0.05)


def test_the_clock_of_a_run_goes_on_when_the_wall_clock_is_set_back(scripts, monkeypatch):
    run = Run(scripts, [])
    before, wall = run.cluster.now(), time.time()
    assert 0 <= before < 60
    for jump in (-1e6, 1e6):
        monkeypatch.setattr(time, "time", lambda jump=jump: wall + jump)
        after = run.cluster.now()
        assert before <= after < before + 60
        before = after
    run.cluster.close()


def test_a_run_that_goes_on_after_the_wall_clock_was_set_back_goes_on_from_its_last_time():
    assert clock_zero(1000.0, 50.0, 5000.0) == 1000.0
    assert clock_zero(1000.0, 50.0, 400.0) == 350.0, "the clock then shows 400 - 350 = 50"
