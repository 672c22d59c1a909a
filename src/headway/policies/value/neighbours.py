"""Which jobs share which node's cpu, what each would use there, and how much each has left: what moves are weighed by.

A job's work is its time left times the cpu it has. A job that is not believed is taken to have as much left as it has
trained. A job that was measured to use less than its part of the node wants no more than that. Where some jobs want
less than they could have, no job is expected to use more than the largest measured use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Growth
from headway.core.job import Job
from headway.core.node import IntArray
from headway.core.placement import Placement
from headway.core.plan import Move, Start, Stop
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.estimates.models.sharing import Claim, Tenant, ends, level

WANTS_LESS = 0.8
"""A job that uses less than this share of what it could have wants no more than it uses."""
LEAST_SECONDS = 60.0
"""Min time left of a job of which nothing is believed."""
FAST = (Growth.UNKNOWN, Growth.PROGRESSING, Growth.WATCHING)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A job on one node."""

    row: int
    tenant: Tenant
    growth: Growth
    believed: bool
    """Whether its time left rests on something."""
    whole: bool
    """All of its replicas are on this node."""

    @property
    def fast(self) -> bool:
        return self.growth in FAST


@dataclass(frozen=True, slots=True)
class Tenancy:
    kind: int
    """The row of cpu among the nodes' resources."""
    parallel: float
    on: dict[int, list[Neighbour]]
    """By node: the jobs that compute there, or will after this plan."""

    def fast(self, node: int) -> int:
        return sum(neighbour.fast for neighbour in self.on.get(node, ()))

    def ends(self, node: int, capacity: float, *more: Tenant) -> list[float]:
        """Seconds from now until each on the node is done, with others beside them."""
        return ends(capacity, [*(neighbour.tenant for neighbour in self.on.get(node, ())), *more], self.parallel)

    def wanted(self, node: int) -> float:
        """Thousandths of a core that all on the node together would use."""
        return sum(neighbour.tenant.claim.limit * neighbour.tenant.claim.count for neighbour in self.on.get(node, ()))


def tenancy(draft: Draft, parallel: float) -> Tenancy | None:
    """The state after this plan; None where nodes have no cpu. `parallel`: share of the work that cpu speeds up."""
    snapshot = draft.snapshot
    if CPU not in snapshot.nodes.kinds:
        return None
    kind = snapshot.nodes.kinds.index(CPU)
    where = _where(draft)
    left = snapshot.estimates.left(snapshot.now) if snapshot.estimates.known and where else np.zeros(0)
    growth = snapshot.estimates.growth()[0] if snapshot.estimates.known and where else np.zeros(0, np.uint8)
    found = Tenancy(kind, parallel, {})
    for row, placement in where.items():
        known = row < len(left) and snapshot.estimates.basis(row).believed and math.isfinite(left[row])
        seconds = float(left[row]) if known else _as_long_again(snapshot, row)
        grows = Growth(int(growth[row])) if known else Growth.UNKNOWN
        nodes = placement.used_nodes()
        for node in sorted(nodes):
            claim = _claim(snapshot, row, placement, node, kind)
            if claim is not None:
                neighbour = Neighbour(row, Tenant(claim, seconds), grows, known, len(nodes) == 1)
                found.on.setdefault(node, []).append(neighbour)
    capacity = snapshot.nodes.capacity[kind]
    widest = _widest(snapshot, found.on, capacity)
    for node, neighbours in found.on.items():
        found.on[node] = _measured(neighbours, float(capacity[node]), snapshot.used_cpu, parallel, widest)
    return found


def _where(draft: Draft) -> dict[int, Placement]:
    """By row: where jobs compute once this plan and what is in flight is done."""
    snapshot, where = draft.snapshot, dict[int, Placement]()
    for row, placement in snapshot.placements.items():
        if snapshot.jobs.state_of(row) is not State.STOPPING:
            where[row] = placement
    for row, flight in snapshot.flights.items():
        if flight.towards is not None:
            where[row] = flight.towards
    for row in draft.decided_rows():
        decision = draft.decided(row)
        if isinstance(decision, Start | Move):
            where[row] = decision.placement
        elif isinstance(decision, Stop):
            where.pop(row, None)
    return where


def _as_long_again(snapshot: Snapshot, row: int) -> float:
    attained, since = snapshot.jobs.values(row, ("attained", "since"))
    trains = snapshot.jobs.state_of(row) is State.RUNNING
    return max(LEAST_SECONDS, float(attained) + (snapshot.now - since if trains else 0.0))


def _claim(snapshot: Snapshot, row: int, placement: Placement, node: int, kind: int) -> Claim | None:
    """All replicas on the node as one claim; None where they ask for no cpu."""
    job, shape = snapshot.jobs.job(row), snapshot.jobs.shape_at(row)
    request, limit = 0.0, 0.0
    for number, nodes in enumerate(placement.nodes):
        count = nodes.count(node)
        if count:
            asked = float(placement.vector(shape, number)[kind])
            request += count * asked
            limit += count * max(asked, _limit(job, number, asked))
    return Claim(request, limit) if limit > 0 else None


def _limit(job: Job, role: int, asked: float) -> float:
    return float(dict(job.roles[role].limit).get(CPU, asked))


def _widest(snapshot: Snapshot, on: Mapping[int, list[Neighbour]], capacity: IntArray) -> float:
    """The largest measured use of any job, where some use less than they could; infinite where none does."""
    most, shown = 0.0, False
    for node, neighbours in on.items():
        reached = level(float(capacity[node]), [neighbour.tenant.claim for neighbour in neighbours])
        for neighbour in neighbours:
            used = snapshot.used_cpu.get(neighbour.row)
            if used and neighbour.whole:
                most = max(most, 1000.0 * used)
                shown |= 1000.0 * used < WANTS_LESS * neighbour.tenant.claim.part(reached)
    return most if shown else math.inf


def _measured(
    neighbours: list[Neighbour], capacity: float, used: Mapping[int, float], parallel: float, widest: float
) -> list[Neighbour]:
    """The same with work in place of seconds. Limits are lowered where a job, or all jobs, use less than they could."""
    reached = level(capacity, [neighbour.tenant.claim for neighbour in neighbours])
    found = []
    for neighbour in neighbours:
        claim = neighbour.tenant.claim
        part, uses = claim.part(reached), 1000.0 * used.get(neighbour.row, 0.0)
        limit = min(claim.limit, max(widest, claim.request))
        if neighbour.whole and 0.0 < uses < WANTS_LESS * part:
            part = limit = uses
        claim = Claim(min(claim.request, limit), limit)
        found.append(
            replace(neighbour, tenant=Tenant(claim, neighbour.tenant.work * claim.speed(min(part, limit), parallel)))
        )
    return found
