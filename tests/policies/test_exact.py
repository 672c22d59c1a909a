"""Known answers: completion times worked out by hand, and those that other simulators print for published traces."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.policy import Policy
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.baselines.las import Las
from headway.policies.registry import POLICIES
from headway.sim.cluster import SimCluster, World
from make import a_job, some_nodes

TRACES = Path(os.environ.get("HEADWAY_TRACES", Path(__file__).resolve().parents[3] / "shared" / "traces"))

FOUR_JOBS = [
    a_job("A", 3, submit=0.0, seconds=10.0),
    a_job("B", 2, submit=1.0, seconds=4.0),
    a_job("C", 1, submit=2.0, seconds=2.0),
    a_job("D", 4, submit=3.0, seconds=1.0),
]
"""On four GPUs. fifo: B cannot pass A, nor C B. first-fit: C runs beside A. sjf: D before B when A ends. srtf: B stops
A at 1; D ties with C and with B and must wait for both, then runs before A goes on. las with a threshold of 12: A
falls at 4, having had 3 x 4, and B stops it."""
BY_HAND = [
    ("fifo", {"A": 10, "B": 14, "C": 12, "D": 15}),
    ("first-fit", {"A": 10, "B": 14, "C": 4, "D": 15}),
    ("sjf", {"A": 10, "B": 15, "C": 4, "D": 11}),
    ("srtf", {"A": 15, "B": 5, "C": 4, "D": 6}),
    ("srsf", {"A": 15, "B": 5, "C": 4, "D": 6}),
    ("las", {"A": 15, "B": 8, "C": 4, "D": 9}),
]


@pytest.mark.parametrize(("name", "ends"), BY_HAND)
def test_four_jobs_on_four_gpus(name: str, ends: dict[str, float]) -> None:
    policy = Las(threshold=12.0) if name == "las" else POLICIES[name]()
    assert completion(FOUR_JOBS, some_nodes(2, gpus=2), policy) == ends


@pytest.mark.parametrize("name", ["drf", "edf", "optimus"])
def test_without_users_deadlines_or_elastic_jobs_the_others_are_first_fit(name: str) -> None:
    assert completion(FOUR_JOBS, some_nodes(2, gpus=2), POLICIES[name]()) == dict(BY_HAND)["first-fit"]


def test_srtf_is_optimal_for_one_machine() -> None:
    """One GPU: shortest remaining time first gives the least mean completion, here 1 + 3 + 6 + 10 by sorting."""
    jobs = [a_job(name, 1, seconds=seconds) for name, seconds in (("d", 4.0), ("b", 2.0), ("a", 1.0), ("c", 3.0))]
    assert completion(jobs, some_nodes(1, gpus=1), POLICIES["srtf"]()) == {"a": 1, "b": 3, "c": 6, "d": 10}


def test_edf_meets_all_deadlines_that_one_machine_can_meet() -> None:
    """On one GPU preempting by deadline is optimal: b stops a, c runs before a goes on, and all are in time."""
    jobs = [
        a_job("a", 1, seconds=4.0, deadline=10.0),
        a_job("b", 1, submit=1.0, seconds=2.0, deadline=4.0),
        a_job("c", 1, submit=2.0, seconds=3.0, deadline=9.0),
    ]
    nodes = some_nodes(1, gpus=1)
    assert completion(jobs, nodes, POLICIES["edf"]()) == {"b": 3, "c": 6, "a": 9}
    assert completion(jobs, nodes, POLICIES["fifo"]())["b"] == 6  # too late


PUBLISHED = [
    ("common/philly_ee9e8c_480.csv", (32, 4), "fifo", 165956.254, 3315001),
    ("common/philly_ee9e8c_480.csv", (32, 4), "first-fit", 145619.785, 3299857),
    ("common/philly_ee9e8c_480.csv", (32, 4), "sjf", 128486.523, 3356673),
    ("common/philly_ee9e8c_480.csv", (32, 4), "srtf", 124562.456, 3421054),
    ("common/philly_ee9e8c_480.csv", (32, 4), "srsf", 123674.531, 3403736),
    ("tiresias/60_job.csv", (4, 4), "fifo", 200.817, 3335),
    ("tiresias/60_job.csv", (4, 4), "first-fit", 190.683, 3271),
    ("tiresias/60_job.csv", (4, 4), "srtf", 192.117, 3271),
    ("common/philly_all_5000.csv", (30, 8), "fifo", 45806.377, 897572),
    ("common/philly_all_5000.csv", (30, 8), "srtf", 8692.338, 987251),
]


@pytest.mark.parametrize(("trace", "cluster", "name", "mean", "makespan"), PUBLISHED)
def test_published_traces_to_the_second(
    trace: str, cluster: tuple[int, int], name: str, mean: float, makespan: float
) -> None:
    if not (TRACES / trace).exists():
        pytest.skip(f"{trace} is not here; set HEADWAY_TRACES")
    jobs = read(TRACES / trace)
    ends = completion(jobs, some_nodes(cluster[0], gpus=cluster[1]), POLICIES[name]())
    assert len(ends) == len(jobs)
    assert sum(ends[job.id] - job.submit for job in jobs) / len(jobs) == pytest.approx(mean, abs=0.001)
    assert max(ends.values()) == makespan


def completion(jobs: list[Job], nodes: Nodes, policy: Policy) -> dict[str, float]:
    """Job to the moment at which it ended, without costs and with an oracle's estimates."""
    sim = SimCluster(nodes, jobs, World(samples=False))
    ends: dict[str, float] = {}

    def observe(decided: object) -> None:
        snapshot = decided.snapshot  # type: ignore[attr-defined]
        assert decided.refusals == ()  # type: ignore[attr-defined]
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ends[snapshot.jobs.job(row).id] = snapshot.now

    run(sim, policy, OracleBook(sim.truth), observe)
    return ends


def read(path: Path) -> list[Job]:
    with path.open() as file:
        return [
            a_job(
                line["job_id"], int(line["num_gpu"]), submit=float(line["submit_time"]), seconds=float(line["duration"])
            )
            for line in csv.DictReader(file)
        ]
