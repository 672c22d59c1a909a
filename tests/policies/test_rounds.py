"""Rounds, the emptiest nodes first, and the ways in which tiresias and optimus follow other simulators."""

from __future__ import annotations

import math

import pytest

from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.plan import Plan, Start, Stop
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.cycle.loop import run
from headway.estimates.oracle import Oracle
from headway.policies.baselines.fifo import fifo
from headway.policies.baselines.kube_default import KubeDefault
from headway.policies.baselines.las import Las
from headway.policies.baselines.optimus import Optimus
from headway.policies.baselines.tiresias import Tiresias
from headway.policies.placing.spread import place_emptiest
from headway.policies.wrappers.rounds import in_rounds
from headway.sim.cluster import SimCluster
from headway.sim.world import Costs, World
from make import a_job, a_role, a_snapshot, decided, running, some_nodes, started


def linear(job: Job, counts: tuple[int, ...]) -> float:
    return counts[0] / job.roles[0].replicas


def ends(jobs: list[Job], nodes: Nodes, policy: Policy, costs: Costs | None = None) -> dict[str, float]:
    sim = SimCluster(
        nodes, jobs, World(samples=False, costs=costs or Costs(), speed=lambda j, p, *_: linear(j, p.counts))
    )
    found = {}

    def observe(decision: object) -> None:
        snapshot = decision.snapshot  # type: ignore[attr-defined]
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                found[snapshot.jobs.job(row).id] = float(snapshot.jobs.since[row])

    run(sim, policy, OracleBook(sim.truth, linear), observe)
    return found


# ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_arrives_or_waits_for_an_end_waits_for_the_end_of_the_round() -> None:
    jobs = [a_job("a", submit=10.0, seconds=70.0), a_job("b", submit=60.0, seconds=30.0)]
    assert ends(jobs, some_nodes(1, gpus=1), in_rounds(fifo, 60.0)) == {"a": 130.0, "b": 210.0}


def test_in_between_nothing_is_decided_but_when_to_be_asked_again() -> None:
    snapshot = a_snapshot(a_job("a"), nodes=some_nodes(1, gpus=1), now=61.0)
    assert in_rounds(fifo, 60.0)(snapshot) == Plan((), 120.0)


@pytest.mark.parametrize(("asked", "told"), [(math.inf, math.inf), (130.0, 180.0), (180.0, 180.0), (120.5, 180.0)])
def test_a_wish_to_be_asked_again_is_put_off_to_the_end_of_a_round(asked: float, told: float) -> None:
    def policy(_: Snapshot) -> Plan:
        return Plan((), asked)

    assert in_rounds(policy, 60.0)(a_snapshot(nodes=some_nodes(1), now=120.0)).until == told


def test_no_round_is_the_policy_itself_and_gangs_are_as_the_policy_has_them() -> None:
    assert in_rounds(fifo, 0.0) is fifo
    assert getattr(in_rounds(KubeDefault(), 60.0), "gangless", False)
    assert not getattr(in_rounds(fifo, 60.0), "gangless", True)
    with pytest.raises(UserError, match="a round of -1 seconds: it must be 0 or more"):
        in_rounds(fifo, -1.0)


# ── the emptiest nodes ──────────────────────────────────────────────────────────────────────────────────────


def test_the_emptiest_node_comes_first_then_the_next() -> None:
    nodes, other = some_nodes(3, gpus=4), running(a_job("x", gpus=3), [0, 0, 1])
    snapshot = a_snapshot(other, a_job("a", gpus=6), nodes=nodes)
    placement = place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(1))
    assert placement is not None
    assert placement.nodes == ((2, 2, 2, 2, 1, 1),)
    assert place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(1), (9,)).width() == 9  # type: ignore[union-attr]
    assert place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(1), (10,)) is None


def test_roles_do_not_get_the_same_room_twice() -> None:
    job = a_job("a", roles=[a_role("ps", 2), a_role("worker", 2)])
    snapshot = a_snapshot(job, nodes=some_nodes(2, gpus=2))
    placement = place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(0))
    assert placement is not None
    assert sorted(placement.nodes) == [(0, 0), (1, 1)]
    assert place_emptiest(snapshot, snapshot.free, snapshot.jobs.shape_at(0), (3, 2)) is None


def test_tiresias_on_the_emptiest_nodes() -> None:
    snapshot = a_snapshot(running(a_job("x"), [0]), a_job("a"), nodes=some_nodes(2, gpus=4))
    assert Tiresias()(snapshot).decisions[0].placement.nodes == ((1,),)  # type: ignore[union-attr]


# ── other simulators' rules ─────────────────────────────────────────────────────────────────────────────────


def test_tiresias_stops_a_later_job_of_the_same_queue_and_starts_when_it_is_gone() -> None:
    """A gap was filled by the later job; now the earlier one fits if that goes. Who would fit as it is waits too."""
    jobs = [a_job("early", gpus=3, submit=0.0), a_job("late", gpus=2, submit=1.0), a_job("last", submit=2.0)]
    up = running(jobs[1], [0, 0], touched=1.0)
    snapshot = a_snapshot(jobs[0], up, jobs[2], nodes=some_nodes(1, gpus=4), now=5.0)
    assert decided(Tiresias()(snapshot)) == {"late": "stop"}
    assert decided(Las()(snapshot)) == {"last": "start"}
    assert started(Tiresias()(a_snapshot(*jobs, nodes=some_nodes(1, gpus=4), now=5.0))) == ["early", "last"]


def test_tiresias_counts_starts_as_service_and_asks_to_be_called_at_the_fall() -> None:
    """Two replicas for 40 s are 80; with 10 s for the start they are 100, and the job has fallen behind the other."""
    up = running(a_job("up", gpus=2), [0, 0], touched=0.0, since=0.0)
    snapshot = a_snapshot(up, a_job("new", gpus=2, submit=1.0), nodes=some_nodes(1, gpus=2), now=40.0)
    assert Tiresias(threshold=100.0)(snapshot) == Plan((), 50.0)
    assert decided(Tiresias(threshold=100.0, start_seconds=10.0)(snapshot)) == {"up": "stop"}


def test_optimus_restarts_instead_of_scaling() -> None:
    """The running job is to shrink: it is stopped first, and then both start, the smaller first."""
    jobs = [a_job("old", 4, least=1, most=4), a_job("new", 1, least=1, most=4, submit=1.0)]
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
    up = running(a_job("a", 2, least=1, most=4), [0, 0], touched=0.0)
    snapshot = a_snapshot(up, nodes=some_nodes(1, gpus=4), now=100.0, left={"a": 5000}, speed=linear)
    plan = Optimus(restarts=True)(snapshot)
    assert (plan.decisions, plan.until) == ((), 600.0)


def test_optimus_starts_a_job_anew_only_when_it_has_trained_for_long_beside_its_last_start() -> None:
    """It took 20 s to start, a tenth of 200: until then it is left alone, whatever happens."""
    up = running(a_job("a", 2, least=1, most=4), [0, 0], touched=100.0, since=120.0)

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
    jobs = [a_job(f"j{i}", 2, least=1, most=8, seconds=100.0 * 1.5 ** (i * 5 % 11), submit=60.0 * i) for i in range(80)]

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
    jobs = [a_job("a", 1, least=1, most=4, seconds=480.0), a_job("b", 1, least=1, most=1, seconds=500.0, submit=70.0)]
    policy = in_rounds(Optimus(restarts=True, interval=0.0, restart_share=1.0), 60.0)
    found = ends(jobs, some_nodes(1, gpus=4), policy, Costs(start=30.0))
    assert found == {"a": 120.0 + 30.0 + (480.0 - 4 * 90.0) / 3, "b": 120.0 + 30.0 + 500.0}
