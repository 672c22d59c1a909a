"""Starting waiting jobs in a given order: the step that most policies end in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.shape import Shape
from headway.core.snapshot import Snapshot
from headway.policies.place import Rooms, place, place_any_size

Rows = npt.NDArray[np.intp]


def may_fit(draft: Draft, rows: Rows) -> Rows:
    """The rows whose shape there might be room for, by counting alone. On a full cluster: none, at little cost."""
    if not len(rows):
        return rows
    jobs = draft.snapshot.jobs
    shape = jobs.shape[rows]
    rooms = Rooms(draft.snapshot.nodes, draft.free)
    fits = np.zeros(len(jobs.shapes), np.bool_)
    for number in np.flatnonzero(np.bincount(shape, minlength=len(jobs.shapes))).tolist():
        fits[number] = _might(rooms, jobs.shapes[number])
    return rows[fits[shape]]


def _might(rooms: Rooms, shape: Shape) -> bool:
    """Each role for itself at its least; together they may still not fit."""
    return not shape.missing and all(rooms.total(role) >= role.least for role in shape.roles if role.least)


def start_in_order(draft: Draft, rows: Rows, *, head_blocks: bool = False) -> Rows:
    """Starts what fits, in order; returns the rows that were left waiting.

    What is free only shrinks while a plan is written, so a shape that once did not fit need not be tried again.
    """
    snapshot = draft.snapshot
    if head_blocks:
        return _start_until_blocked(draft, rows)
    jobs = snapshot.jobs
    remaining = may_fit(draft, rows)
    while len(remaining):
        row = int(remaining[0])
        placement = place_any_size(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
            remaining = remaining[1:]
        else:
            alike = (jobs.shape[remaining] == jobs.shape[row]) & (jobs.can[remaining] == jobs.can[row])
            remaining = remaining[~alike]
    return left_waiting(draft, rows)


def _start_until_blocked(draft: Draft, rows: Rows) -> Rows:
    passed: list[int] = []
    for number in range(len(rows)):
        row = int(rows[number])
        placement = place_any_size(draft.snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
        elif fits_empty(draft.snapshot, row):
            return rows[number:] if not passed else np.concatenate([passed, rows[number:]])
        else:
            passed.append(row)
    return np.array(passed, np.intp)


def left_waiting(draft: Draft, rows: Rows) -> Rows:
    """The rows about which nothing was decided, in their order."""
    decided = draft.decided_rows()
    return rows[~np.isin(rows, decided)] if decided else rows


def fits_empty(snapshot: Snapshot, row: int) -> bool:
    """Whether waiting can help at all: a job larger than the empty cluster must not block others for ever."""
    shape = snapshot.jobs.shape_at(row)
    nodes = snapshot.nodes
    capacity = nodes.capacity if nodes.ready.all() else np.where(nodes.ready, nodes.capacity, 0).astype(np.int32)
    least = shape.least if int(snapshot.jobs.can[row]) & Can.SIZE else shape.counts
    return place(snapshot, capacity, shape, least) is not None
