"""Starting waiting jobs in a given order: the step that most policies end in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.snapshot import Snapshot
from headway.policies.place import place, place_any_size

Rows = npt.NDArray[np.intp]


def start_in_order(draft: Draft, rows: Rows, *, head_blocks: bool = False) -> Rows:
    """Starts what fits, in order; returns the rows that were left waiting.

    What is free only shrinks while a plan is written, so a shape that once did not fit need not be tried again.
    """
    jobs = draft.snapshot.jobs
    shape = jobs.shape
    left: list[npt.NDArray[np.intp]] = []
    remaining = rows
    while len(remaining):
        row = int(remaining[0])
        placement = place_any_size(draft.snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
            remaining = remaining[1:]
        elif head_blocks and fits_empty(draft.snapshot, row):
            left.append(remaining)
            break
        else:
            alike = (shape[remaining] == shape[row]) & (jobs.can[remaining] == jobs.can[row])
            left.append(remaining[alike])
            remaining = remaining[~alike]
    return np.concatenate(left) if left else rows[:0]


def fits_empty(snapshot: Snapshot, row: int) -> bool:
    """Whether waiting can help at all: a job larger than the empty cluster must not block others for ever."""
    shape = snapshot.jobs.shape_at(row)
    capacity = np.where(snapshot.nodes.ready, snapshot.nodes.capacity, 0).astype(np.int32)
    least = shape.least if int(snapshot.jobs.can[row]) & Can.SIZE else shape.counts
    return place(snapshot, capacity, shape, least) is not None
