"""Serving deadlines: jobs that have one start, grow and shrink with the smallest size that is in time, and room is made
for them.

`outlook` says who can be in time and with which size now. `serve` starts and grows these jobs; for one that finds no
room `make_room` shrinks and stops others. `keep` guards them against the other steps of a plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.jobs.shapes import dominant_share
from headway.core.node import IntArray
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.add_remove import may_scale, scale_towards
from headway.policies.placing.spread import place_evenly
from headway.policies.ranges import Factor, Seconds, Share
from headway.policies.steps.cool_down import rested
from headway.policies.value.deadlines import Calendar, DeadlineNeed, deviations, hopeful, most_in_time, needs
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
class ServeInTime:
    """On which terms. They are the settings of the policy `deadline`."""

    confidence: Share = 0.8
    """The chance with which a job is in time at the size that is chosen for it, where the cluster has room for that."""
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

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """Whether a job with a deadline will be in time, while it waits and while it runs."""
        jobs = snapshot.jobs
        lives = jobs.state_of(row) in (State.WAITING, State.RUNNING)
        if not lives or not math.isfinite(jobs.deadline[row]) or not snapshot.estimates.known:
            return {}
        answer = asdict(in_time(snapshot, row, self.promises))
        numbers = {name: answer[name] if math.isfinite(answer[name]) else None for name in ("done_at", "give")}
        return {"in_time": {**answer, **numbers}}

    @property
    def promises(self) -> Promises:
        return Promises(
            restart=self.restart, hopeless=self.hopeless, packing=self.packing, confidence=self.confidence
        )  # fmt: skip

    def outlook(self, snapshot: Snapshot, rows: list[int], room: float = 1.0) -> Outlook:
        """`room`: the share of the cluster that these jobs may have."""
        now, found = snapshot.now, needs(snapshot, rows, self.restart)
        candidates = hopeful(found.values(), now, self.hopeless)
        feasible = most_in_time(candidates, now, self.packing * room)
        reserve = deviations(self.confidence)
        calendar, sizes, chosen = _calendar(snapshot, room), dict[int, Counts](), list[int]()
        for need in candidates:
            if need.row not in feasible:
                continue
            careful = now + (need.deadline - now) * (1.0 - self.margin)
            run = (
                calendar.promise(need, careful, reserve)
                or calendar.promise(need, careful)
                or calendar.promise(need, need.deadline)
            )
            if run is None:
                continue
            chosen.append(need.row)
            if run.now >= 0:
                sizes[need.row] = need.counts[run.now]
        chosen.sort(key=lambda row: (_slack(found[row], now, sizes.get(row)), row))
        return Outlook(found, chosen, sizes, _rest(found, set(chosen)))

    def serve(self, draft: Draft, outlook: Outlook) -> int | None:
        """Starts and grows jobs whose turn is now. Returns the first that finds no room."""
        snapshot, short = draft.snapshot, None
        for row in outlook.chosen:
            if row not in outlook.sizes or draft.decided(row) is not None:
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

    def make_room(self, draft: Draft, row: int, outlook: Outlook, stoppable: list[int]) -> bool:
        """For one job: shrinks jobs with slack, then stops jobs whose turn is not now, then shrinks jobs that are
        planned to grow again later; as few as will do. All or nothing.
        """
        trial = draft.copy()
        if _fits_soon(trial, row, outlook.sizes[row]):
            return True
        spare = self._spare(draft, row, outlook)
        planned = [other for other in self._smaller(draft, row, outlook) if other not in spare]
        for shrinks, other in [*((True, other) for other in spare),
                               *((False, other) for other in stoppable),
                               *((True, other) for other in planned)]:  # fmt: skip
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

    def keep(self, draft: Draft, outlook: Outlook) -> None:
        """While others wait: running jobs that are in time shrink to what they need, and nobody else changes them."""
        spare = self._spare(draft, -1, outlook)
        for row in outlook.sizes:
            if row not in draft.snapshot.placements or draft.decided(row) is not None:
                continue
            if row in spare and rested(draft, row, self.cool_down):
                scale_towards(draft, row, outlook.sizes[row], up=False)
            if draft.decided(row) is None:
                draft.leave(row)

    def _smaller(self, draft: Draft, row: int, outlook: Outlook) -> list[int]:
        """Running jobs that are planned with less than they have, at least for now; the latest deadline first."""
        placements = draft.snapshot.placements
        found = [
            other
            for other in outlook.chosen
            if other != row
            and other in placements
            and other in outlook.sizes
            and may_scale(draft.snapshot, other)
            and sum(outlook.sizes[other]) < sum(placements[other].counts)
        ]
        return sorted(found, key=lambda other: (-outlook.needs[other].deadline, other))

    def _spare(self, draft: Draft, row: int, outlook: Outlook) -> list[int]:
        """Those of them that stay in time without it; most slack first."""
        snapshot, found = draft.snapshot, list[tuple[float, int]]()
        for other in self._smaller(draft, row, outlook):
            need, counts = outlook.needs[other], snapshot.placements[other].counts
            left = need.work / max(snapshot.estimates.speed(other, counts), 1e-9)
            slack = need.deadline - snapshot.now - left
            if slack > self.high * left:
                found.append((-slack, other))
        return [other for _, other in sorted(found)]


def _calendar(snapshot: Snapshot, room: float) -> Calendar:
    """The time ahead, less what jobs in flight will hold."""
    calendar, whole = Calendar(snapshot.now, room), snapshot.nodes.total()
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
