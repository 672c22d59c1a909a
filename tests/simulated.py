"""Whole runs in virtual time for tests of policies."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.policy import Policy
from headway.core.states import State
from headway.cycle.loop import Decided, decide, run
from headway.estimates.plain_books import OracleBook
from headway.sim.cluster import SimCluster, World
from headway.sim.world import Costs


def simulate(
    jobs: Iterable[Job], nodes: Nodes, policy: Policy, *, cluster: SimCluster | None = None, until: float = 1e12
) -> list[Decided]:
    """Every cycle with an oracle's estimates; no decision may be refused."""
    sim = cluster or SimCluster(nodes, jobs, World(samples=False))
    book = OracleBook(sim.truth, sim.speed_at)
    cycles = []
    while (snapshot := sim.next_snapshot()) is not None and snapshot.now <= until:
        decided = decide(policy, book.annotate(snapshot))
        assert decided.refusals == ()
        cycles.append(decided)
        sim.apply(decided.plan)
    return cycles


def ends_of(cycles: Iterable[Decided]) -> dict[str, float]:
    """Job to the moment at which it finished."""
    ends: dict[str, float] = {}
    for decided in cycles:
        snapshot = decided.snapshot
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ends[snapshot.jobs.job(row).id] = snapshot.now
    return ends


def linear(job: Job, counts: tuple[int, ...]) -> float:
    """Speed that grows with the replicas of the first role."""
    return counts[0] / job.roles[0].replicas


def ends_with_linear_speed(
    jobs: list[Job], nodes: Nodes, policy: Policy, costs: Costs | None = None
) -> dict[str, float]:
    """Job to the moment at which it finished, where speed is `linear` and known."""
    world = World(samples=False, costs=costs or Costs(), speed=lambda job, at, *_: linear(job, at.counts))
    sim = SimCluster(nodes, jobs, world)
    found = {}

    def observe(decided: Decided) -> None:
        snapshot = decided.snapshot
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                found[snapshot.jobs.job(row).id] = float(snapshot.jobs.since[row])

    run(sim, policy, OracleBook(sim.truth, linear), observe)
    return found
