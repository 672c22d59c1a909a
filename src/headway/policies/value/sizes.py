"""Which sizes a job may have, what a size holds, and shares of the cluster."""

from __future__ import annotations

import math

import numpy as np

from headway.core.estimates import Counts
from headway.core.job import Can
from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.estimates.sizes.table import FURTHER
from headway.policies.value.times import Rows

UNKNOWN_SECONDS = 3600.0
"""Training left of a job without an estimate."""


def held(snapshot: Snapshot, row: int) -> Counts | None:
    """Replicas per role that the job has; None while it waits."""
    placement = snapshot.placements.get(row)
    return None if placement is None else placement.counts


def may_resize_gang(snapshot: Snapshot, row: int) -> bool:
    """Whether the scheduler chooses the number of replicas: at the start or, once the job runs, later."""
    needed = Can.SIZE if held(snapshot, row) is None else Can.SCALE
    return snapshot.jobs.shape_at(row).elastic and bool(int(snapshot.jobs.can[row]) & needed)


def bounds(snapshot: Snapshot, row: int) -> tuple[Counts, Counts]:
    """The min and max replicas per role that a plan may give it."""
    shape = snapshot.jobs.shape_at(row)
    if may_resize_gang(snapshot, row):
        return shape.min, tuple(role.max for role in shape.roles)
    fixed = held(snapshot, row) or shape.counts
    return fixed, fixed


def work_left(snapshot: Snapshot, rows: list[int]) -> dict[int, float]:
    """By row: seconds that the job would still take at the asked-for size, whatever size it has."""
    left = snapshot.estimates.left(snapshot.now)
    work = {}
    for row in rows:
        seconds = UNKNOWN_SECONDS if math.isnan(left[row]) else float(left[row])
        counts = held(snapshot, row)
        work[row] = seconds if counts is None else seconds * snapshot.estimates.speed(row, counts)
    return work


def demand(snapshot: Snapshot, row: int, counts: Counts) -> FloatArray:
    """By kind: what this many replicas hold. A job whose request was changed in place holds other amounts."""
    shape, placement = snapshot.jobs.shape_at(row), snapshot.placements.get(row)
    total: FloatArray = np.zeros(len(snapshot.nodes.kinds))
    for number, count in enumerate(counts):
        vector = shape.roles[number].vector if placement is None else placement.vector(shape, number)
        total += vector * float(count)
    return total


def ladder(snapshot: Snapshot, row: int) -> list[Counts]:
    """Its sizes from min to max in doublings, the asked-for one among them."""
    least, most = bounds(snapshot, row)
    sizes, factor = {least, most}, 2
    if all(
        low <= asked <= high for low, asked, high in zip(least, snapshot.jobs.shape_at(row).counts, most, strict=True)
    ):
        sizes.add(snapshot.jobs.shape_at(row).counts)
    while factor < max((high / max(low, 1) for low, high in zip(least, most, strict=True)), default=1):
        sizes.add(tuple(min(high, max(low, 1) * factor) for low, high in zip(least, most, strict=True)))
        factor *= 2
    return sorted(sizes, key=lambda counts: (sum(counts), counts))


def shares(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Share of the cluster at the asked-for size: the largest of any kind, above 0. Aligned with the rows."""
    found: FloatArray = snapshot.jobs.shapes.share[snapshot.jobs.shape[rows]]
    return found


def first_within(worth: FloatArray, share: FloatArray, most: float, eligible: BoolArray) -> BoolArray:
    """Of the eligible jobs, those of highest worth that together hold no more than `most`; at least one."""
    chosen = np.zeros(len(worth), np.bool_)
    places = eligible.nonzero()[0]
    if len(places) and most > 0:
        order = places[(-worth[places]).argsort(kind="stable")]
        inside = share[order].cumsum() <= most + 1e-9
        inside[0] = True
        chosen[order[inside]] = True
    return chosen


def larger_sizes(counts: Counts, most: Counts) -> list[Counts]:
    """Sizes with more replicas of one role, and sizes with more of every role that takes more."""
    open_ = [role for role, (count, high) in enumerate(zip(counts, most, strict=True)) if count < high]
    found = [(*counts[:role], counts[role] + more, *counts[role + 1 :])
             for role in open_ for more in FURTHER if counts[role] + more <= most[role]]  # fmt: skip
    if len(open_) > 1:
        limits = list(enumerate(zip(counts, most, strict=True)))
        found += [
            tuple(min(count + more, high) if role in open_ else count for role, (count, high) in limits)
            for more in FURTHER[:4]
        ]
    return found
