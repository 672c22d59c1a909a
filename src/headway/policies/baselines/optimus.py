"""Optimus: every job gets its min, then the replica that saves most time for what it costs, again and again.

The gain of one more replica is the estimated time it saves, divided by the share of the cluster that it takes. Sizes
are computed again whenever something happens. A running job is changed at most once per interval, so that changes are
worth their cost. Placement: fewest nodes, each role spread evenly (`place_evenly`). Needs estimates of time and of
speed.

With `restarts`, a change is a stop and a start. All jobs whose size changes are stopped. Then all waiting jobs are
placed, the smallest first, on the emptiest nodes (`place_emptiest`). Such starts are events too, so their cost is
counted; otherwise a busy cluster would do nothing else.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts, SpeedSource
from headway.core.job import Can
from headway.core.jobs.shapes import dominant_share
from headway.core.node import FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.add_remove import may_scale, scale_towards
from headway.policies.placing.pack import place_any_size
from headway.policies.placing.spread import place_emptiest, place_evenly
from headway.policies.ranges import Seconds, Share
from headway.policies.steps.cool_down import rested
from headway.policies.value.sizes import bounds, demand, work_left


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus:
    interval: Seconds = 600.0
    """Seconds between two changes of a running job."""
    every: Seconds = 0.0
    """Seconds after which sizes are computed again though nothing has happened; 0 means only at events."""
    restarts: bool = False
    """Sizes change by stopping and starting again instead of by scaling."""
    restart_share: Share = 0.1
    """The max share of a job's time that goes into such starts, by how long its last one took; 1 does not
    count them.
    """

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        running, waiting = snapshot.jobs.running().tolist(), snapshot.jobs.waiting().tolist()
        if self.every > 0 and (running or waiting):
            draft.wake(snapshot.now + self.every)
        if self.restarts:
            self._restart(draft, running, waiting)
            return draft.plan()
        sizes = best_sizes(draft, [*running, *waiting])
        for row in waiting:
            _start(draft, row, sizes)
        waits = any(draft.decided(row) is None and row in sizes for row in waiting)
        for row in running:
            if not may_scale(snapshot, row) or sizes[row] == snapshot.placements[row].counts:
                continue
            if not rested(draft, row, self.interval):
                continue
            if not (waits and scale_towards(draft, row, sizes[row], up=False)):
                scale_towards(draft, row, sizes[row], up=True)
        return draft.plan()

    def _rest(self, snapshot: Snapshot, row: int) -> float:
        """Seconds from the last start of a running job to its next: the start must first have paid off."""
        begun, up = snapshot.jobs.values(row, ("touched", "since"))
        return max(self.interval, float(up - begun) / max(self.restart_share, 1e-9))

    def _restart(self, draft: Draft, running: list[int], waiting: list[int]) -> None:
        """Stops jobs whose size changes. Where there are none any more, starts those that wait."""
        snapshot = draft.snapshot
        sizes = best_sizes(draft, sorted([*running, *waiting]))
        stopped = False
        for row in running:
            if sizes[row] == snapshot.placements[row].counts or not int(snapshot.jobs.can[row]) & Can.STOP:
                continue
            if rested(draft, row, self._rest(snapshot, row)) and snapshot.now != snapshot.jobs.touched[row]:
                draft.stop(row)
                stopped = True
        if stopped:
            return  # what they leave is not free yet
        for row in sorted((row for row in waiting if row in sizes), key=lambda row: sum(sizes[row])):
            placement = place_emptiest(snapshot, draft.free, snapshot.jobs.shape_at(row), sizes[row])
            if placement is not None:
                draft.start(row, placement)


def best_sizes(draft: Draft, rows: list[int]) -> dict[int, Counts]:
    """Replicas per role for each job, running jobs first. Jobs whose min is too much are left out."""
    snapshot = draft.snapshot
    budget = _budget(draft)
    sizes: dict[int, Counts] = {}
    too_much: set[tuple[int, int]] = set()
    alike = list(zip(snapshot.jobs.shape[rows].tolist(), snapshot.jobs.can[rows].tolist(), strict=True))
    for row, kind in zip(rows, alike, strict=True):
        if kind in too_much and row not in snapshot.placements:
            continue  # the budget only shrinks
        least, _ = bounds(snapshot, row)
        cost = demand(snapshot, row, least)
        if row in snapshot.placements or bool((cost <= budget).all()):
            sizes[row] = least
            budget = budget - cost
        else:
            too_much.add(kind)
    growing = _growing(snapshot, sizes)
    steps = [step for row in sizes if (step := growing[row].best_step(sizes[row], snapshot.estimates.speed))]
    heapq.heapify(steps)
    while steps:
        _, row, role = heapq.heappop(steps)
        cost = growing[row].vectors[role]
        if not bool((cost <= budget).all()):
            continue
        budget, sizes[row] = budget - cost, _one_more(sizes[row], role)
        step = growing[row].best_step(sizes[row], snapshot.estimates.speed)
        if step is not None:
            heapq.heappush(steps, step)
    return sizes


@dataclass(frozen=True, slots=True)
class Growing:
    """What the growth of a job depends on; the same whatever size it has."""

    row: int
    work: float
    max: Counts
    vectors: list[FloatArray]
    """Per role: what one more replica holds."""
    shares: list[float]
    """Per role: that as a share of the cluster."""

    def best_step(self, counts: Counts, speed: SpeedSource) -> tuple[float, int, int] | None:
        """The role of which one more replica gains most per share; None where none gains. For a heap: the best is
        smallest.
        """
        row, work = self.row, self.work
        now = speed(row, counts)
        best: tuple[float, int, int] | None = None
        for role, count in enumerate(counts):
            if count >= self.max[role] or work <= 0:
                continue
            then = speed(row, _one_more(counts, role))
            if then <= now:
                continue
            saved = (work / now if now > 0 else math.inf) - work / then
            step = (-saved / max(self.shares[role], 1e-9), row, role)
            best = step if best is None or step[0] < best[0] else best
        return best


def _growing(snapshot: Snapshot, rows: Iterable[int]) -> dict[int, Growing]:
    work, whole = work_left(snapshot, list(rows)), snapshot.nodes.total()
    shares: dict[bytes, float] = {}
    found = {}
    for row in rows:
        shape, placement = snapshot.jobs.shape_at(row), snapshot.placements.get(row)
        vectors: list[FloatArray] = []
        for number, role in enumerate(shape.roles):
            asked = role.vector if placement is None else placement.vector(shape, number)
            vectors.append(asked.astype(np.float64))
        keys = [vector.tobytes() for vector in vectors]
        for key, vector in zip(keys, vectors, strict=True):
            if key not in shares:
                shares[key] = dominant_share(vector, whole)
        found[row] = Growing(row, work[row], bounds(snapshot, row)[1], vectors, [shares[key] for key in keys])
    return found


def _one_more(counts: Counts, role: int) -> Counts:
    return (*counts[:role], counts[role] + 1, *counts[role + 1 :])


def _budget(draft: Draft) -> FloatArray:
    """What this plan may give away: what is free or coming, and what running jobs hold."""
    snapshot = draft.snapshot
    budget: FloatArray = draft.soon().clip(min=0).sum(axis=1).astype(np.float64)
    for row in snapshot.jobs.running().tolist():
        budget += demand(snapshot, row, snapshot.placements[row].counts)
    return budget


def _start(draft: Draft, row: int, sizes: dict[int, Counts]) -> None:
    """At the chosen size if that fits; else at any that does."""
    snapshot = draft.snapshot
    if row not in sizes:
        return
    placement = place_evenly(snapshot, draft.free, snapshot.jobs.shape_at(row), sizes[row])
    placement = placement or place_any_size(snapshot, draft.free, row)
    if placement is not None:
        draft.start(row, placement)
