"""EASY backfill: the first waiting job gets a reservation, and others may pass only if they do not delay it.

When does that job start? Running jobs end when the estimates say. The first moment at which it fits is its shadow time,
and the place where it fits is reserved. A later job may start now if it ends before the shadow time, or if it leaves
the reserved place alone.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, take
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place_asked
from headway.policies.steps.reserve import reservation
from headway.policies.steps.start import fits_empty, start_in_order
from headway.policies.value.times import Rows


def backfill(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    backfill_in_order(draft, snapshot.jobs.queue_order())
    return draft.plan()


def backfill_in_order(draft: Draft, rows: Rows) -> None:
    """Starts jobs in order up to the first that does not fit; reserves for that one and backfills the rest."""
    waiting = np.sort(start_in_order(draft, rows, head_blocks=True))
    head = next((int(row) for row in waiting if fits_empty(draft.snapshot, int(row))), None)
    if head is None:
        return
    waiting = waiting[np.flatnonzero(waiting == head)[0] :]
    left = draft.snapshot.estimates.left(draft.snapshot.now)
    shadow, hole = reservation(draft, head, left)
    if hole is None:
        start_in_order(draft, waiting[1:])
        return
    draft.reserve(head, hole, draft.snapshot.now + shadow)
    _fill_around(draft, waiting, left, shadow, hole)


def _fill_around(draft: Draft, rows: Rows, left: FloatArray, shadow: float, hole: Placement) -> None:
    """The hole is for the first of the rows."""
    snapshot, head = draft.snapshot, int(rows[0])
    reserved: IntArray = np.zeros_like(draft.free)
    take(reserved, hole, snapshot.jobs.shape_at(head), +1)
    beside = np.maximum(draft.free - reserved, 0).astype(np.int32)
    failed: set[tuple[int, bool]] = set()
    for row in rows[1:]:
        ends_before = bool(left[row] <= shadow)
        key = (int(snapshot.jobs.shape[row]), ends_before)
        if key in failed:
            continue
        placement = place_asked(snapshot, draft.free if ends_before else beside, int(row))
        if placement is None:
            failed.add(key)
            continue
        draft.start(int(row), placement)
        take(beside, placement, snapshot.jobs.shape_at(int(row)))
        np.maximum(beside, 0, out=beside)
