"""Runs of one scenario: many processes give what one gives, mistakes survive the way, and seeds shuffle only ties."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headway.compare.perform import Task, Tell, make_cluster, perform, perform_all, shuffled
from headway.compare.scenario import Scenario, described_world
from headway.core.errors import UserError
from headway.policies.baselines.fifo import fifo
from headway.workload.cluster import open_cluster
from headway.workload.simulate_fields import SimulateFields
from headway.workload.trace import Trace
from make import a_job


class OwnError(UserError):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def squared(shared: int, item: int, tell: Tell) -> int:
    tell(0.5)
    if item < 0:
        raise OwnError("below", "zero")
    return shared * item * item


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_the_order_of_items_and_each_is_told_as_done(processes: int) -> None:
    told: list[tuple[int, float]] = []
    assert perform_all(squared, 10, [3, 1, 2], processes, lambda *of: told.append(of)) == [90, 10, 40]
    assert {number for number, share in told if share == 1.0} == {0, 1, 2}


@pytest.mark.parametrize("processes", [1, 2])
def test_a_users_mistake_arrives_as_one(processes: int) -> None:
    with pytest.raises(UserError, match="below zero"):
        perform_all(squared, 10, [1, -1], processes, lambda *_: None)


def test_a_seed_shuffles_only_jobs_of_one_moment() -> None:
    jobs = [a_job(f"j{i}", submit=float(i // 5)) for i in range(10)]
    assert list(shuffled(jobs, 0)) == jobs
    other = shuffled(jobs, 3)
    assert list(other) != jobs
    assert [job.submit for job in other] == [job.submit for job in jobs]


def test_what_the_estimates_need_is_reported_and_rigid_jobs_keep_their_size() -> None:
    trace = Trace(name="t", jobs=(a_job("a", 2, min=1, max=4, seconds=10.0),), simulate=SimulateFields(start=5))
    scenario = Scenario(trace, tuple(open_cluster("1x4")), partial(described_world, "t.yaml"), "declared")
    task = Task(policy="fifo", make=lambda: fifo)
    assert not make_cluster(scenario, task).world.samples
    assert make_cluster(scenario, Task(policy="fifo", make=lambda: fifo, estimates="progress")).world.samples
    assert perform(scenario, task).completion.tolist() == [15.0]
    rigid = make_cluster(scenario, Task(policy="fifo", make=lambda: fifo, rigid=True)).next_snapshot()
    assert rigid is not None
    assert (rigid.jobs.job(0).roles[0].min, rigid.jobs.job(0).roles[0].max) == (2, 2)


SLOW = """
import os, sys, time
from pathlib import Path
from headway.compare.perform import perform_all

def work(shared, item, tell):
    (Path(shared) / str(os.getpid())).touch()
    time.sleep(100)

if __name__ == "__main__":
    perform_all(work, sys.argv[1], [1, 2], 2, lambda *_: None)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    place = tmp_path / "pids"
    place.mkdir()
    parent = subprocess.Popen([sys.executable, str(tmp_path / "slow.py"), str(place)])
    try:
        _await(lambda: len(list(place.iterdir())) == 2)
    finally:
        parent.kill()
        parent.wait()
    workers = [int(path.name) for path in place.iterdir()]
    _await(lambda: not any(_runs(pid) for pid in workers))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _await(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)
