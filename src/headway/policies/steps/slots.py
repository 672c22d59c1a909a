"""Choosing which jobs run where all replicas are alike: the cluster is a number of slots, and choosing is counting.

Example: 10 slots, all held; a waiting job of 4 ranks before running jobs of 2, 3 and 1. The worst-ranked are stopped
until 4 slots are left to it. The count is exact, whatever nodes the replicas are on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray
from headway.core.placement import RoleShape
from headway.core.snapshot import Snapshot
from headway.policies.placing.room import room
from headway.policies.steps.order import Key, by_key, ranks, stoppable
from headway.policies.value.times import Rows

LITTLE = 16
"""Slots. Up to this number, room is filled by looking for the smallest key."""
TRIES = 6
KeyOf = Callable[[Rows], Key]
"""Keys aligned with the rows. What it says of a job must not depend on the other rows."""


class Ranked(NamedTuple):
    """Jobs and their keys. The smallest key comes first."""

    rows: Rows
    keys: Key


def may_stop(snapshot: Snapshot, key: KeyOf) -> Ranked:
    """The running jobs that may be stopped."""
    running, may = snapshot.jobs.running(), stoppable(snapshot)
    keys = key(running)
    return Ranked(running, keys) if may is None else Ranked(running[may], keys[may])


def slots_add_up(snapshot: Snapshot, slots: int) -> bool:
    """Whether every job holds what it asked for. That is not so after a resize, or where gangs run in part."""
    jobs = snapshot.jobs
    held = int(np.add.reduce(jobs.width[jobs.running()]))
    for flight in snapshot.flights.values():
        held += flight.towards.width() if flight.towards is not None else 0
    return slots + held == jobs.shapes.slots


def start_by_counting(draft: Draft, key: KeyOf, key_of_running: KeyOf, slots: int, role: RoleShape) -> list[int]:
    """The rows that start now; running jobs that must go are stopped in the draft.

    Ranked are only waiting jobs that come before some running job, and running jobs that come behind some waiting job.
    The other running jobs stay, and the other waiting jobs share what is left over.
    """
    snapshot = draft.snapshot
    waiting, width = snapshot.jobs.waiting(), snapshot.jobs.width
    if len(waiting) <= slots and int(width[waiting].sum()) <= slots:
        return _have_room(draft, waiting.tolist(), slots, role)
    new, up = Ranked(waiting, key(waiting)), may_stop(snapshot, key_of_running)
    passing = _places_before_some(new.keys, up.keys)
    starting, left_over = list[int](), slots
    if len(passing):
        starting, left_over = _replace(draft, up, Ranked(new.rows[passing], new.keys[passing]), slots)
    if left_over:
        starting += _fill_up(new, passing, width, left_over)
    return _have_room(draft, starting, slots, role)


def _places_before_some(keys: Key, running_keys: Key) -> Rows:
    """Places of the keys that come before at least one running job. NaN comes last."""
    worst = running_keys.item(running_keys.argmax()) if len(running_keys) else -math.inf
    places: Rows = (keys < (np.inf if math.isnan(worst) else worst)).nonzero()[0]
    return places


def _replace(draft: Draft, up: Ranked, new: Ranked, slots: int) -> tuple[list[int], int]:
    """Stops running jobs for waiting jobs that rank before them: the rows that start, and the slots left over."""
    width, best = draft.snapshot.jobs.width, new.keys.item(new.keys.argmin())
    behind = np.logical_not(up.keys <= best).nonzero()[0]  # NaN is behind, too
    running = up.rows[behind]
    held = width[running]
    order = ranks(np.concatenate((up.keys[behind], new.keys)))
    widths = np.concatenate((held, width[new.rows]))
    left_over, chosen, stopped = _deal(order, widths, len(running), slots + int(np.add.reduce(held)))
    for number in stopped:
        draft.stop(running.item(number))
    return [new.rows.item(number) for number in chosen], left_over


def _deal(order: Rows, widths: IntArray, running: int, capacity: int) -> tuple[int, list[int], list[int]]:
    """Fills the capacity in this order with what still fits. Returns what is left over, which waiting jobs come in, and
    which running jobs go.

    Numbers below `running` are running jobs, the others wait. Most jobs fit one after the other; only those behind are
    looked at one by one.
    """
    in_order = widths[order]
    filled = in_order.cumsum()
    fit = int(filled.searchsorted(capacity, "right"))
    first, stopped = order[:fit], list[int]()
    chosen: list[int] = (first[first >= running] - running).tolist()
    capacity -= filled.item(fit - 1) if fit else 0
    for number, width in zip(order[fit:].tolist(), in_order[fit:].tolist(), strict=True):
        if width <= capacity:
            capacity -= width
            if number >= running:
                chosen.append(number - running)
        elif number < running:
            stopped.append(number)
    return capacity, chosen, stopped


def _fill_up(new: Ranked, passed: Rows, width: IntArray, capacity: int) -> list[int]:
    """Of the waiting jobs that have not passed, in order of their keys, what fits.

    Little room is filled by looking for the smallest key, without sorting all. Where too many of those jobs are too
    wide, the narrow ones are picked out first.
    """
    waiting, keys = new
    left: FloatArray = keys.astype(np.float64)
    left[passed] = np.inf
    gone, found = passed.tolist(), list[int]()
    for _ in range(TRIES if capacity <= LITTLE else 0):
        best = int(left.argmin())
        if not math.isfinite(left.item(best)):
            break
        gone.append(best)
        left[best] = np.inf
        row = waiting.item(best)
        if width.item(row) <= capacity:
            found.append(row)
            capacity -= width.item(row)
            if not capacity:
                return found
    fits = width[waiting] <= capacity
    fits[gone] = False
    narrow = fits.nonzero()[0]
    if len(narrow):
        ranked = waiting[by_key(narrow, keys[narrow])]
        found += ranked[choose(width[ranked], capacity)].tolist()
    return found


def _have_room(draft: Draft, rows: list[int], slots: int, role: RoleShape) -> list[int]:
    """The rows for which there is room now. The others start when what is coming is free."""
    snapshot = draft.snapshot
    if not rows:
        return []
    free = int(room(snapshot.nodes, draft.free, role).sum()) if snapshot.flights else slots
    width, found = snapshot.jobs.width, list[int]()
    for row in rows:
        if width.item(row) <= free:
            free -= width.item(row)
            found.append(row)
    return found


def choose(widths: npt.NDArray[np.integer], capacity: int) -> npt.NDArray[np.bool_]:
    """Takes in order what still fits. It needs as many rounds as there are widths, not as there are jobs."""
    chosen = np.zeros(len(widths), np.bool_)
    candidates = np.flatnonzero(widths <= capacity)
    while len(candidates):
        sums = np.cumsum(widths[candidates])
        taken = int(np.searchsorted(sums, capacity, side="right"))
        if taken:
            chosen[candidates[:taken]] = True
            capacity -= int(sums[taken - 1])
            candidates = candidates[taken:]
        candidates = candidates[widths[candidates] <= capacity]
    return chosen
