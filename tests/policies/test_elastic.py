"""optimus and elasticflow: sizes."""

from __future__ import annotations

import pytest

from headway.core.plan import Scale
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.oracle import Oracle
from headway.policies.baselines.elasticflow import ElasticFlow
from headway.policies.baselines.optimus import Optimus
from headway.sim.cluster import SimCluster, World
from make import a_job, a_snapshot, decided, running, some_nodes, started


def linear(job: object, counts: tuple[int, ...]) -> float:
    return counts[0] / job.roles[0].replicas  # type: ignore[attr-defined]


def by_counts(job: object, placement: object, *_: object) -> float:
    return linear(job, placement.counts)  # type: ignore[attr-defined]


def saturating(job: object, counts: tuple[int, ...]) -> float:
    """No gain beyond two."""
    return min(counts[0], 2) / 2.0


def test_optimus_gives_where_it_saves_most() -> None:
    """Two elastic jobs and six GPUs: the long one gets what is left after both have their least."""
    jobs = [a_job("long", 2, least=1, most=8), a_job("short", 2, least=1, most=8)]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=6), left={"long": 1000, "short": 10}, speed=linear)
    plan = Optimus()(snapshot)
    sizes = {decision.job: decision.placement.counts for decision in plan.decisions}
    assert sizes == {"long": (5,), "short": (1,)}


def test_optimus_stops_where_nothing_is_gained() -> None:
    snapshot = a_snapshot(
        a_job("a", 2, least=1, most=8), nodes=some_nodes(1, gpus=8), left={"a": 100}, speed=saturating
    )
    plan = Optimus()(snapshot)
    assert [decision.placement.counts for decision in plan.decisions] == [(2,)]


def test_optimus_changes_a_running_job_once_per_interval() -> None:
    def at(now: float):
        up = running(a_job("a", 2, least=1, most=4), [0, 0], touched=0.0)
        nodes = some_nodes(1, gpus=4)
        return Optimus(interval=600.0)(a_snapshot(up, nodes=nodes, now=now, left={"a": 5000}, speed=linear))

    assert at(100.0).decisions == ()
    assert at(100.0).until == 600.0
    assert at(600.0).decisions == (Scale("a", "worker", (0, 0, 0, 0)),)


def flow(deadlines: dict[str, float], left: dict[str, float], gpus: int = 4):
    jobs = [a_job(name, 1, least=1, most=4, deadline=deadline) for name, deadline in deadlines.items()]
    return a_snapshot(*jobs, nodes=some_nodes(1, gpus=gpus), left=left, speed=linear)


SHARES = [
    ("one GPU is enough", {"a": 100.0}, {"a": 90.0}, {"a": 1}),
    ("two are needed", {"a": 50.0}, {"a": 90.0}, {"a": 2}),
    ("both fit side by side", {"a": 50.0, "b": 50.0}, {"a": 90.0, "b": 90.0}, {"a": 2, "b": 2}),
    ("the earlier first, the later when it can", {"a": 25.0, "b": 60.0}, {"a": 90.0, "b": 90.0}, {"a": 4}),
    ("the hopeless last, beside the others", {"a": 10.0, "b": 100.0}, {"a": 90.0, "b": 90.0}, {"a": 1, "b": 1}),
]


@pytest.mark.parametrize(("why", "deadlines", "left", "sizes"), SHARES)
def test_minimum_satisfactory_share(
    why: str, deadlines: dict[str, float], left: dict[str, float], sizes: dict[str, int]
) -> None:
    plan = ElasticFlow()(flow(deadlines, left))
    assert {decision.job: decision.placement.width() for decision in plan.decisions} == sizes, why


def test_hopeless_jobs_start_after_the_others() -> None:
    plan = ElasticFlow()(flow({"hopeless": 1.0, "fine": 100.0}, {"hopeless": 90.0, "fine": 90.0}, gpus=1))
    assert started(plan) == ["fine"]


def test_a_hopeless_running_job_gives_way() -> None:
    snapshot = a_snapshot(
        running(a_job("hopeless", 4, deadline=1.0), [0] * 4, touched=0.0),
        a_job("new", 2, deadline=200.0, submit=100.0),
        nodes=some_nodes(1, gpus=4), now=100.0, left={"hopeless": 500, "new": 50}, speed=linear,
    )  # fmt: skip
    assert decided(ElasticFlow()(snapshot)) == {"hopeless": "stop"}


def test_elasticflow_meets_what_edf_cannot() -> None:
    """Two jobs of 100 GPU-seconds due at 60 on four GPUs: each on two is in time; edf gives each what it asked for."""
    jobs = [a_job(name, 1, least=1, most=4, seconds=100.0, deadline=60.0) for name in ("a", "b")]
    sim = SimCluster(some_nodes(1, gpus=4), jobs, World(samples=False, speed=by_counts))
    ends = {}

    def observe(decision: object) -> None:
        snapshot = decision.snapshot  # type: ignore[attr-defined]
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ends[snapshot.jobs.job(row).id] = snapshot.now

    run(sim, ElasticFlow(), OracleBook(sim.truth, linear), observe)
    assert ends == {"a": 50.0, "b": 50.0}
