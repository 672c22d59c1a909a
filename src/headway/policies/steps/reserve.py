"""Starting jobs in order, with one guard against starvation: a job that has waited too long reserves.

Example: a job that needs a whole node has waited for a day, and single GPUs become free now and then. It reserves the
node that is free soonest. From then on a smaller job starts there only if it is done by then.

Of the jobs that are over the limit and do not fit, the one that has waited longest gets the reservation: the first
moment at which the estimates say that it fits, and the place. Other jobs pass only where they leave that place alone,
or where the estimate says that they are done by then. Where no job is over the limit, the first urgent job that does
not fit gets the reservation, and a policy may stop others for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.node import BoolArray, FloatArray, IntArray
from headway.core.placement import Placement, take
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place
from headway.policies.steps.start import fits_empty, left_waiting, may_fit
from headway.policies.steps.victims import fewest_to_stop
from headway.policies.value.times import Rows, waited

DESPERATE = 4.0
"""Factor of the limit after which a waiting job comes before urgent ones."""
Placer = Callable[[Snapshot, IntArray, int], Placement | None]
"""Where a job goes, at the size it asks for or, where it allows that, a smaller one."""


@dataclass(slots=True)
class Hole:
    """The room that is kept for one job."""

    seconds: float
    """Seconds until the job fits."""
    beside: IntArray
    """What is free, and will be free, outside of that room."""


@dataclass(frozen=True, slots=True)
class Pressing:
    """Waiting jobs for which room is kept, or made, as soon as they do not fit."""

    urgent: BoolArray
    """Aligned with the waiting jobs."""
    below: Callable[[int], list[int]]
    """By waiting row: running jobs that may be stopped for it, the cheapest first."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Against starvation: who comes before the order."""

    longest_wait: float
    """Seconds. Jobs that have waited longer come first, and one of them reserves."""
    keep_factor: float = math.inf
    """A place is kept only if it comes free within this factor of the time that its job has waited: it is idle
    until then."""
    pressing: Pressing | None = None


def start_guarded(draft: Draft, ordered: Rows, guard: Guard, placer: Placer) -> None:
    """Starts waiting jobs in the given order. Jobs that waited too long, and urgent ones, come before it."""
    snapshot = draft.snapshot
    hole: Hole | None = None
    if snapshot.estimates.known or guard.pressing is not None:
        hole = _serve_first(draft, ordered, guard, placer)
    remaining = left_waiting(draft, may_fit(draft, ordered))
    ends_before: BoolArray = np.zeros(len(remaining), np.bool_)
    if hole is not None and snapshot.estimates.known:
        ends_before = snapshot.estimates.left(snapshot.now)[remaining] <= hole.seconds
    shape, can = snapshot.jobs.shape[remaining], snapshot.jobs.can[remaining]
    while len(remaining):
        row = int(remaining[0])
        placement = _placed(draft, row, placer, hole, ends_before=bool(ends_before[0]))
        keep = np.ones(len(remaining), np.bool_)
        keep[0] = False
        if placement is None:  # what is free only shrinks: a job alike is not tried again
            keep &= (shape != shape[0]) | (can != can[0]) | (ends_before != ends_before[0])
        else:
            draft.start(row, placement)
            if hole is not None:
                take(hole.beside, placement, snapshot.jobs.shape_at(row))
                np.maximum(hole.beside, 0, out=hole.beside)
        remaining, ends_before, shape, can = remaining[keep], ends_before[keep], shape[keep], can[keep]


def _serve_first(draft: Draft, ordered: Rows, guard: Guard, placer: Placer) -> Hole | None:
    """Starts jobs over the limit, the longest-waiting first; the first that does not fit reserves. Urgent jobs come
    before them, except for those that have waited far beyond the limit.
    """
    snapshot, pressing = draft.snapshot, guard.pressing
    seconds = waited(snapshot, ordered)
    late = seconds >= guard.longest_wait if snapshot.estimates.known else np.zeros(len(ordered), np.bool_)
    over = np.flatnonzero(late)
    first = over[np.argsort(-seconds[over], kind="stable")].tolist()
    if pressing is not None:
        urgent = np.flatnonzero(pressing.urgent).tolist()
        desperate = sum(seconds[number] >= DESPERATE * guard.longest_wait for number in first)
        first = list(dict.fromkeys([*first[:desperate], *urgent, *first[desperate:]]))
    for number in first:
        row = int(ordered[number])
        placement = placer(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
        elif fits_empty(snapshot, row):
            made = None
            if pressing is not None and pressing.urgent[number]:
                made = _make_room(draft, row, placer, pressing.below(row))
            kept_for = guard.keep_factor * float(seconds[number])
            return made or (_reserve(draft, row, kept_for) if snapshot.estimates.known else None)
    return None


def _make_room(draft: Draft, row: int, placer: Placer, victims: list[int]) -> Hole | None:
    """Stops as few of the victims as will do, the cheapest first, and keeps what they leave. None where all of them are
    not enough. Stops none where what was stopped before is enough.
    """
    snapshot, soon = draft.snapshot, draft.soon()
    placement = placer(snapshot, soon, row)
    if placement is not None:
        return _hole(draft, row, placement, 0.0) if snapshot.flights else None
    found = fewest_to_stop(snapshot, soon, row, victims, lambda pot: placer(snapshot, pot, row))
    if found is None:
        return None
    placement, stopped = found
    for victim in stopped:
        draft.stop(victim)
    return _hole(draft, row, placement, 0.0)


def _reserve(draft: Draft, row: int, longest: float) -> Hole | None:
    snapshot = draft.snapshot
    seconds, placement = reservation(draft, row, snapshot.estimates.left(snapshot.now))
    if placement is None or seconds > longest:
        return None
    draft.reserve(row, placement, snapshot.now + seconds)
    return _hole(draft, row, placement, seconds)


def _hole(draft: Draft, row: int, placement: Placement, seconds: float) -> Hole:
    reserved: IntArray = np.zeros_like(draft.free)
    take(reserved, placement, draft.snapshot.jobs.shape_at(row), +1)
    return Hole(seconds, np.maximum(draft.free - reserved, 0).astype(np.int32))


def _placed(draft: Draft, row: int, placer: Placer, hole: Hole | None, *, ends_before: bool) -> Placement | None:
    snapshot = draft.snapshot
    if hole is None:
        return placer(snapshot, draft.free, row)
    beside = placer(snapshot, hole.beside, row)
    if beside is not None or not ends_before:
        return beside
    whole = placer(snapshot, draft.free, row)
    asked = snapshot.jobs.shape_at(row).counts
    return whole if whole is not None and whole.counts == asked else None  # smaller, it would not be done in time


def reservation(draft: Draft, head: int, left: FloatArray) -> tuple[float, Placement | None]:
    """Seconds until the head fits, and where. Running jobs without an estimate are taken to end last."""
    snapshot = draft.snapshot
    shape = snapshot.jobs.shape_at(head)
    least = shape.min if int(snapshot.jobs.can[head]) & Can.SIZE else shape.counts
    free: IntArray = draft.free.copy()
    ends = sorted(
        (math.inf if math.isnan(left[row]) else float(left[row]), row)
        for row in snapshot.placements
        if draft.decided(row) is None
    )
    for seconds, row in ends:
        take(free, snapshot.placements[row], snapshot.jobs.shape_at(row), +1)
        hole = place(snapshot, free, shape, least)
        if hole is not None:
            return (seconds, hole) if math.isfinite(seconds) else (3600.0, hole)
    return math.inf, None
