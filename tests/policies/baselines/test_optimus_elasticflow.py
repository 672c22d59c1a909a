"""optimus and elasticflow: sizes."""

from __future__ import annotations

import math

import pytest

from headway.core.plan import Plan, Scale, Start, Stop
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.baselines.elasticflow import ElasticFlow
from headway.policies.baselines.optimus import Optimus
from headway.policies.wrappers.rounds import in_rounds
from headway.sim.cluster import SimCluster
from headway.sim.world import Costs, World
from make import a_job, a_snapshot, decided, running, some_nodes, started
from simulated import ends_with_linear_speed as ends
from simulated import linear


def by_counts(job: object, placement: object, *_: object) -> float:
    return linear(job, placement.counts)  # type: ignore[attr-defined]


def saturating(job: object, counts: tuple[int, ...]) -> float:
    """No gain beyond two."""
    return min(counts[0], 2) / 2.0


def test_optimus_gives_where_it_saves_most() -> None:
    """Two elastic jobs and six GPUs: the long one gets what is left after both have their least."""
    jobs = [a_job("long", 2, min=1, max=8), a_job("short", 2, min=1, max=8)]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=6), left={"long": 1000, "short": 10}, speed=linear)
    plan = Optimus()(snapshot)
    sizes = {decision.job: decision.placement.counts for decision in plan.decisions}
    assert sizes == {"long": (5,), "short": (1,)}


def test_optimus_stops_where_nothing_is_gained() -> None:
    snapshot = a_snapshot(a_job("a", 2, min=1, max=8), nodes=some_nodes(1, gpus=8), left={"a": 100}, speed=saturating)
    plan = Optimus()(snapshot)
    assert [decision.placement.counts for decision in plan.decisions] == [(2,)]


def test_optimus_changes_a_running_job_once_per_interval() -> None:
    def at(now: float):
        up = running(a_job("a", 2, min=1, max=4), [0, 0], touched=0.0)
        nodes = some_nodes(1, gpus=4)
        return Optimus(interval=600.0)(a_snapshot(up, nodes=nodes, now=now, left={"a": 5000}, speed=linear))

    assert at(100.0).decisions == ()
    assert at(100.0).until == 600.0
    assert at(600.0).decisions == (Scale("a", "worker", (0, 0, 0, 0)),)


def flow(deadlines: dict[str, float], left: dict[str, float], gpus: int = 4):
    jobs = [a_job(name, 1, min=1, max=4, deadline=deadline) for name, deadline in deadlines.items()]
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
    jobs = [a_job(name, 1, min=1, max=4, seconds=100.0, deadline=60.0) for name in ("a", "b")]
    sim = SimCluster(some_nodes(1, gpus=4), jobs, World(samples=False, speed=by_counts))
    ends = {}

    def observe(decision: object) -> None:
        snapshot = decision.snapshot  # type: ignore[attr-defined]
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ends[snapshot.jobs.job(row).id] = snapshot.now

    run(sim, ElasticFlow(), OracleBook(sim.truth, linear), observe)
    assert ends == {"a": 50.0, "b": 50.0}


def test_optimus_restarts_instead_of_scaling() -> None:
    """The running job is to shrink: it is stopped first, and then both start, the smaller first."""
    jobs = [a_job("old", 4, min=1, max=4), a_job("new", 1, min=1, max=4, submit=1.0)]
    left = {"old": 100.0, "new": 100.0}
    snapshot = a_snapshot(
        running(jobs[0], [0] * 4, touched=0.0), jobs[1], nodes=some_nodes(1, gpus=4), now=60.0, left=left, speed=linear
    )
    plan = Optimus(restarts=True, interval=0.0)(snapshot)
    assert plan.decisions == (Stop("old", plan.decisions[0].because),)  # type: ignore[arg-type,union-attr]
    snapshot = a_snapshot(*jobs, nodes=some_nodes(1, gpus=4), now=60.0, left=left, speed=linear)
    plan = Optimus(restarts=True, interval=0.0)(snapshot)
    assert started(plan) == ["new", "old"]
    assert [d.placement.width() for d in plan.decisions if isinstance(d, Start)] == [1, 3]


def test_optimus_leaves_a_job_alone_for_the_interval_also_where_it_restarts() -> None:
    up = running(a_job("a", 2, min=1, max=4), [0, 0], touched=0.0)
    snapshot = a_snapshot(up, nodes=some_nodes(1, gpus=4), now=100.0, left={"a": 5000}, speed=linear)
    plan = Optimus(restarts=True)(snapshot)
    assert (plan.decisions, plan.until) == ((), 600.0)


def test_optimus_starts_a_job_anew_only_when_it_has_trained_for_long_beside_its_last_start() -> None:
    """It took 20 s to start, a tenth of 200: until then it is left alone, whatever happens."""
    up = running(a_job("a", 2, min=1, max=4), [0, 0], touched=100.0, since=120.0)

    def plan(now: float, **settings: float) -> Plan:
        snapshot = a_snapshot(up, nodes=some_nodes(1, gpus=4), now=now, left={"a": 5000}, speed=linear)
        return Optimus(restarts=True, interval=0.0, **settings)(snapshot)

    assert (plan(299.0).decisions, plan(299.0).until) == ((), 300.0)
    assert decided(plan(300.0)) == {"a": "stop"}
    assert decided(plan(139.0, restart_share=0.5)) == {}
    assert decided(plan(140.0, restart_share=0.5)) == {"a": "stop"}
    assert decided(plan(121.0, restart_share=1.0)) == {"a": "stop"}
    assert decided(plan(1e6, restart_share=0.0)) == {}


def test_jobs_of_optimus_come_to_an_end_though_every_event_may_restart_them() -> None:
    """With 80 of them somebody comes, stops or ends more often than a start takes. Seldom changes are the measure."""
    jobs = [a_job(f"j{i}", 2, min=1, max=8, seconds=100.0 * 1.5 ** (i * 5 % 11), submit=60.0 * i) for i in range(80)]

    def mean(interval: float) -> float:
        policy = Optimus(restarts=True, interval=interval)
        found = ends(jobs, some_nodes(16, gpus=4), policy, Costs(start=30.0, save=10.0))
        return sum(found[job.id] - job.submit for job in jobs) / len(jobs)

    assert mean(0.0) < 1.25 * mean(600.0)


def test_optimus_may_look_again_though_nothing_happens() -> None:
    up = running(a_job("a", 1), [0], touched=0.0)
    snapshot = a_snapshot(up, nodes=some_nodes(1, gpus=1), now=100.0, left={"a": 5000}, speed=linear)
    assert (Optimus(every=60.0)(snapshot).until, Optimus()(snapshot).until) == (160.0, math.inf)
    assert Optimus(every=60.0)(a_snapshot(nodes=some_nodes(1, gpus=1), left={})).until == math.inf


def test_a_restart_costs_a_start_and_no_time_passes_between_stop_and_start() -> None:
    """One starts for 30 s and trains on four GPUs for 90 s; then the other comes, and it starts anew on three."""
    jobs = [a_job("a", 1, min=1, max=4, seconds=480.0), a_job("b", 1, min=1, max=1, seconds=500.0, submit=70.0)]
    policy = in_rounds(Optimus(restarts=True, interval=0.0, restart_share=1.0), 60.0)
    found = ends(jobs, some_nodes(1, gpus=4), policy, Costs(start=30.0))
    assert found == {"a": 120.0 + 30.0 + (480.0 - 4 * 90.0) / 3, "b": 120.0 + 30.0 + 500.0}
