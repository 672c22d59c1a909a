"""Starting waiting jobs in a given order: the last step of most policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place, place_asked
from headway.policies.placing.room import Rooms, empty, takes_empty
from headway.policies.value.times import Rows

FEW = 2
"""Up to this number, jobs are tried rather than counted."""
FEW_SHAPES = 32
"""Up to this number of shapes, all are counted again when one does not fit. Beyond it, only jobs of the same shape are
skipped.
"""
Size = Callable[[Snapshot, IntArray, int], Placement | None]


def may_fit(draft: Draft, rows: Rows) -> Rows:
    """The rows whose shape might have room, by counting alone. On a full cluster that is none, at little cost."""
    if not len(rows):
        return rows
    jobs = draft.snapshot.jobs
    if len(jobs.shapes) <= FEW_SHAPES:
        return _of_shapes(draft, rows, range(len(jobs.shapes)))
    return _of_shapes(draft, rows, np.bincount(jobs.shape[rows]).nonzero()[0].tolist())


def _of_shapes(draft: Draft, rows: Rows, shapes: Iterable[int]) -> Rows:
    """The rows of these shapes, as far as there might be room for them."""
    jobs, rooms = draft.snapshot.jobs, Rooms(draft.snapshot.nodes, draft.free)
    fits = [number for number in shapes if _might(rooms, jobs.shapes[number])]
    if not fits or len(fits) == len(jobs.shapes):
        return rows if fits else rows[:0]
    might = np.zeros(len(jobs.shapes), np.bool_)
    might[fits] = True
    return rows[might[jobs.shape[rows]]]


def _might(rooms: Rooms, shape: Shape) -> bool:
    """Each role by itself at its min; together they may still not fit."""
    return not shape.missing and all(rooms.total(role) >= role.min for role in shape.roles if role.min)


def start_in_order(draft: Draft, rows: Rows, *, head_blocks: bool = False, size: Size = place_asked) -> Rows:
    """Starts what fits, in order. Returns the rows that are left waiting.

    `size` says where a job goes and how large: as asked for by default, `place_any_size` for any size that fits.
    """
    if head_blocks:
        return _start_until_blocked(draft, rows, size)
    start_what_fits(draft, rows, size)
    return left_waiting(draft, rows)


def start_what_fits(draft: Draft, rows: Rows, size: Size = place_asked) -> None:
    """The same without returning the rows that are left waiting.

    What is free only shrinks while a plan is written, so a shape that once did not fit is not tried again.
    """
    snapshot = draft.snapshot
    jobs, failed = snapshot.jobs, set[int]()
    remaining = may_fit(draft, rows) if len(rows) > FEW else rows
    while len(remaining):
        row = remaining.item(0)
        placement = size(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
            remaining = remaining[1:]
            continue
        failed.add(jobs.value(row, "shape"))
        if jobs.any_elastic or len(jobs.shapes) > FEW_SHAPES:
            alike = (jobs.shape[remaining] == jobs.shape[row]) & (jobs.can[remaining] == jobs.can[row])
            remaining = remaining[~alike]
        else:
            others = [number for number in range(len(jobs.shapes)) if number not in failed]
            remaining = _of_shapes(draft, remaining[1:], others)


def _start_until_blocked(draft: Draft, rows: Rows, size: Size) -> Rows:
    snapshot, passed = draft.snapshot, list[int]()
    for number in range(len(rows)):
        row = rows.item(number)
        placement = size(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
        elif fits_empty(snapshot, row):
            return rows[number:] if not passed else np.concatenate([passed, rows[number:]])
        else:
            passed.append(row)
    return np.array(passed, np.intp)


def left_waiting(draft: Draft, rows: Rows) -> Rows:
    """The rows about which nothing is decided, in their order."""
    decided = draft.decided_rows()
    if not decided or not len(rows):
        return rows
    waits = np.ones(draft.snapshot.jobs.count, np.bool_)
    waits[decided] = False
    return rows[waits[rows]]


def fits_empty(snapshot: Snapshot, row: int) -> bool:
    """Whether waiting can help at all: a job larger than the empty cluster must not block others for ever."""
    nodes, shape = snapshot.nodes, snapshot.jobs.shape_at(row)
    least = shape.min if shape.elastic and snapshot.jobs.value(row, "can") & Can.SIZE else shape.counts
    if shape.missing:
        return False
    if len(shape.roles) == 1:
        return takes_empty(nodes, shape.roles[0], least[0])
    return place(snapshot, empty(nodes), shape, least) is not None
