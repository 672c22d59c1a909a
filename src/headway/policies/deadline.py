"""Deadlines: the user says when, the scheduler says how many replicas. As many jobs as possible are in time, each with
the smallest size that is.

1. Which jobs can still be in time? A job whose chance is below 5 % even with the whole cluster is hopeless. Of the
   others, as many as one machine of this size could serve are chosen; the largest is left out first. They are planned
   in order of deadlines, each with the smallest size that is in time beside the earlier ones.
2. Jobs whose turn is now start or scale up, least slack first. Where there is no room, jobs with slack to spare shrink
   to what they need. Then jobs without a chance or a deadline are stopped, and jobs whose turn comes again later.
3. What is left goes to chosen jobs whose turn is later, to jobs without a deadline by arrival, and to hopeless ones,
   the shortest first. When no job waits, running jobs grow where they gain most for their share.

A missed deadline only changes the rank. A job past its deadline is hopeless, so it is never stopped for being late. It
is stopped only when a job with a chance needs its place, and it ends in time that no other job can use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.job import Can
from headway.core.jobs.shapes import dominant_share
from headway.core.node import IntArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.add_remove import may_scale, scale_towards
from headway.policies.placing.pack import place_any_size
from headway.policies.placing.spread import place_evenly
from headway.policies.ranges import Factor, Seconds, Share
from headway.policies.steps.cool_down import rested
from headway.policies.value.deadlines import Calendar, DeadlineNeed, hopeful, most_in_time, needs
from headway.policies.value.in_time import Promises, in_time
from headway.policies.value.sizes import demand


@dataclass(frozen=True, slots=True)
class Outlook:
    """Jobs that will be in time with their size now, in order of slack; and all others, in order of rank."""

    needs: dict[int, DeadlineNeed]
    chosen: list[int]
    sizes: dict[int, Counts]
    """Of the jobs whose turn is now."""
    rest: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    margin: Share = 0.05
    """Share of the time to a deadline that is kept in reserve where a size allows it."""
    low: Factor = 0.05
    """A running job grows for its deadline only when its slack is below this share of its time left."""
    high: Factor = 0.10
    """It shrinks for others only when its slack is above this share."""
    cool_down: Seconds = 60.0
    """Seconds between two changes of a running job."""
    restart: Seconds = 10.0
    """Seconds that a start costs. A waiting job must be in time with them, and a change must gain more than them."""
    hopeless: Share = 0.05
    """Below this chance a job comes last."""
    packing: Share = 0.95
    """Share of the cluster that jobs can be expected to fill: a replica does not spread over nodes."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        rows = [*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()]
        if not rows:
            return draft.plan()
        outlook = self.outlook(snapshot, rows)
        short = self._serve(draft, outlook)
        if short is not None and self._make_room(draft, short, outlook):
            return draft.plan()
        waits = _fill(draft, outlook)
        if short is None and not waits:
            self._grow(draft, outlook)
        return draft.plan()

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """Whether a waiting job with a deadline will be in time."""
        jobs = snapshot.jobs
        waits = jobs.state_of(row) is State.WAITING
        if not waits or not math.isfinite(jobs.deadline[row]) or not snapshot.estimates.known:
            return {}
        answer = asdict(in_time(snapshot, row, self.promises))
        return {"in_time": {**answer, "done_at": answer["done_at"] if math.isfinite(answer["done_at"]) else None}}

    @property
    def promises(self) -> Promises:
        return Promises(restart=self.restart, hopeless=self.hopeless, packing=self.packing)

    def outlook(self, snapshot: Snapshot, rows: list[int]) -> Outlook:
        now, found = snapshot.now, needs(snapshot, rows, self.restart)
        candidates = hopeful(found.values(), now, self.hopeless)
        feasible = most_in_time(candidates, now, self.packing)
        calendar, sizes, chosen = _calendar(snapshot), dict[int, Counts](), list[int]()
        for need in candidates:
            if need.row not in feasible:
                continue
            careful = now + (need.deadline - now) * (1.0 - self.margin)
            run = calendar.promise(need, careful) or calendar.promise(need, need.deadline)
            if run is None:
                continue
            chosen.append(need.row)
            if run.now >= 0:
                sizes[need.row] = need.counts[run.now]
        chosen.sort(key=lambda row: (_slack(found[row], now, sizes.get(row)), row))
        return Outlook(found, chosen, sizes, _rest(found, set(chosen)))

    def _serve(self, draft: Draft, outlook: Outlook) -> int | None:
        """Starts and grows jobs whose turn is now. Returns the first that finds no room."""
        snapshot, short = draft.snapshot, None
        for row in outlook.chosen:
            if row not in outlook.sizes:
                continue
            wanted = outlook.sizes[row]
            if row not in snapshot.placements:
                placement = place_evenly(snapshot, draft.free, snapshot.jobs.shape_at(row), wanted)
                if placement is not None:
                    draft.start(row, placement)
                    continue
            elif self._stays_in_time(draft, row, outlook):
                continue
            short = row if short is None else short
        return short

    def _stays_in_time(self, draft: Draft, row: int, outlook: Outlook) -> bool:
        """Whether a running job is in time as it is, or grows now."""
        wanted = outlook.sizes[row]
        if not self._must_grow(draft, row, outlook):
            return True
        return not _comes_soon(draft, row, wanted) and scale_towards(draft, row, wanted, up=True)

    def _must_grow(self, draft: Draft, row: int, outlook: Outlook) -> bool:
        """Whether a running job is about to be late at its present size."""
        snapshot, need = draft.snapshot, outlook.needs[row]
        counts = snapshot.placements[row].counts
        if sum(outlook.sizes[row]) <= sum(counts) or not may_scale(snapshot, row):
            return False
        left = need.work / max(snapshot.estimates.speed(row, counts), 1e-9)
        slack = need.deadline - snapshot.now - left
        if slack >= self.low * left:
            draft.wake(snapshot.now + max((slack - self.low * left) / (1.0 + self.low), 1.0))
            return False
        return rested(draft, row, self.cool_down)

    def _make_room(self, draft: Draft, row: int, outlook: Outlook) -> bool:
        """For one job: shrinks jobs with slack, then stops jobs whose turn is not now, as few as will do. All or
        nothing.
        """
        snapshot, trial = draft.snapshot, draft.copy()
        if _fits_soon(trial, row, outlook.sizes[row]):
            return True
        for shrinks, other in [*((True, other) for other in self._spare(draft, row, outlook)),
                               *((False, other) for other in _stoppable(snapshot, outlook))]:  # fmt: skip
            if trial.decided(other) is not None or not rested(draft, other, self.cool_down):
                continue
            if shrinks:
                scale_towards(trial, other, outlook.sizes[other], up=False)
            else:
                trial.stop(other)
            if trial.decided(other) is not None and _fits_soon(trial, row, outlook.sizes[row]):
                draft.adopt(trial)
                return True
        return False

    def _spare(self, draft: Draft, row: int, outlook: Outlook) -> list[int]:
        """Running jobs that are above what they need and stay in time without it; most slack first."""
        snapshot, found = draft.snapshot, list[tuple[float, int]]()
        for other in outlook.chosen:
            if other == row or other not in snapshot.placements or not may_scale(snapshot, other):
                continue
            need, counts = outlook.needs[other], snapshot.placements[other].counts
            if other not in outlook.sizes or sum(outlook.sizes[other]) >= sum(counts):
                continue
            left = need.work / max(snapshot.estimates.speed(other, counts), 1e-9)
            slack = need.deadline - snapshot.now - left
            if slack > self.high * left:
                found.append((-slack, other))
        return [other for _, other in sorted(found)]

    def _grow(self, draft: Draft, outlook: Outlook) -> None:
        """The running job that gains most per share becomes one step larger; others at a later event."""
        snapshot = draft.snapshot
        steps = []
        for row in [*outlook.chosen, *outlook.rest]:
            if row in snapshot.placements and draft.decided(row) is None and may_scale(snapshot, row):
                step = _step(snapshot, outlook.needs[row], self.restart)
                if step is not None and rested(draft, row, self.cool_down):
                    steps.append((*step, row))
        for _, counts, row in sorted(steps, key=lambda step: (-step[0], step[2])):
            if scale_towards(draft, row, counts, up=True):
                draft.wake(snapshot.now + 1.0)
                return


def _calendar(snapshot: Snapshot) -> Calendar:
    """The time ahead, less what jobs in flight will hold."""
    calendar, whole = Calendar(snapshot.now), snapshot.nodes.total()
    left = snapshot.estimates.left(snapshot.now)
    for row, flight in snapshot.flights.items():
        if flight.towards is not None:
            seconds = 3600.0 if math.isnan(left[row]) else float(left[row])
            share = dominant_share(demand(snapshot, row, flight.towards.counts), whole)
            calendar.take(share, snapshot.now + max(seconds, 1.0))
    return calendar


def _slack(need: DeadlineNeed, now: float, counts: Counts | None) -> float:
    size = len(need.counts) - 1 if counts is None else need.size_of(counts)
    return need.deadline - now - need.seconds(size)


def _rest(found: dict[int, DeadlineNeed], chosen: set[int]) -> list[int]:
    """Jobs without a deadline, or without an estimate, by arrival; then hopeless ones by their time left."""
    others = [need for row, need in found.items() if row not in chosen]
    free = [need.row for need in others if math.isinf(need.deadline) or math.isnan(need.work)]
    late = [need for need in others if math.isfinite(need.deadline) and not math.isnan(need.work)]
    return [*sorted(free), *(need.row for need in sorted(late, key=lambda need: (need.work, need.row)))]


def _stoppable(snapshot: Snapshot, outlook: Outlook) -> list[int]:
    """The worst-ranked first: jobs without a chance or a deadline, then jobs whose turn comes again later."""
    jobs = snapshot.jobs
    later = [row for row in outlook.chosen if row not in outlook.sizes]
    rows = [*outlook.rest[::-1], *later[::-1]]
    return [row for row in rows if row in snapshot.placements and int(jobs.can[row]) & Can.STOP]


def _fill(draft: Draft, outlook: Outlook) -> bool:
    """Starts the other jobs, as they fit. Returns whether a job still waits."""
    snapshot, waits, failed = draft.snapshot, False, set[tuple[int, int]]()
    for row in [*outlook.chosen, *outlook.rest]:
        if row in snapshot.placements or draft.decided(row) is not None:
            continue
        alike = (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        placement = None if alike in failed else place_any_size(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
        else:
            failed.add(alike)
            waits = True
    return waits


def _fits_soon(draft: Draft, row: int, counts: Counts) -> bool:
    return _fits(draft, draft.soon(), row, counts)


def _comes_soon(draft: Draft, row: int, counts: Counts) -> bool:
    """Whether there is no room for this size now, but there is when what is in flight has ended.

    A job that takes a part of it before is left alone for the cool-down: what was stopped for it, was for nothing.
    """
    return not _fits(draft, draft.free, row, counts) and _fits_soon(draft, row, counts)


def _fits(draft: Draft, free: IntArray, row: int, counts: Counts) -> bool:
    """Whether there is room for what the job has not yet of this size."""
    snapshot, shape = draft.snapshot, draft.snapshot.jobs.shape_at(row)
    placement = snapshot.placements.get(row)
    if placement is not None:
        counts = tuple(wanted - now for wanted, now in zip(counts, placement.counts, strict=True))
    return place_evenly(snapshot, free, shape, tuple(max(0, count) for count in counts)) is not None


def _step(snapshot: Snapshot, need: DeadlineNeed, restart: float) -> tuple[float, Counts] | None:
    """Seconds saved per share by the next larger size; None where that does not save more than the change costs."""
    now = snapshot.placements[need.row].counts
    larger = [size for size, counts in enumerate(need.counts)
              if sum(counts) > sum(now) and all(a >= b for a, b in zip(counts, now, strict=True))]  # fmt: skip
    if not larger or math.isnan(need.work):
        return None
    speed, size = snapshot.estimates.speed(need.row, now), larger[0]
    saved = need.work / max(speed, 1e-9) - need.work / max(float(need.speeds[size]), 1e-9)
    share = float(need.shares[size]) - float(need.shares[need.size_of(now)])
    return (saved / max(share, 1e-9), need.counts[size]) if saved > restart else None
