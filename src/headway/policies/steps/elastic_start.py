"""Starting waiting jobs at a size of their own: first the min of each, then more for the job that gains most from it.

What running jobs would gain from growing counts too, so that a new job does not take what is worth more to another one.
Running jobs are not changed here.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.flags import all_of
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.policies.placing.affinity import place_near
from headway.policies.steps.competition import contested
from headway.policies.steps.order import by_key
from headway.policies.steps.start import may_fit
from headway.policies.value.sizes import UNKNOWN_SECONDS, demand
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth

MANY = 64
"""Waiting jobs beyond this number start at their min."""


def smallest_first(worth: Worth, waiting: Rows, patience: float) -> Rows:
    """Jobs that have waited long come first, by arrival; then the smallest area (time left times share).

    With `favour` 0 the order is arrival alone. A job without an estimate counts as an hour.
    """
    snapshot = worth.snapshot
    jobs = snapshot.jobs
    if not len(waiting) or not worth.terms.favour:
        return waiting
    aged = snapshot.now - jobs.since[waiting] >= patience
    left = np.full(len(waiting), UNKNOWN_SECONDS)
    if snapshot.estimates.known:
        known = snapshot.estimates.left(snapshot.now)[waiting]
        left = np.where(np.isfinite(known), known, left)
    shares = {shape: worth.share(int(waiting[np.argmax(jobs.shape[waiting] == shape)]), jobs.shapes[shape].counts)
              for shape in np.unique(jobs.shape[waiting]).tolist()}  # fmt: skip
    area = left * np.array([shares[shape] for shape in jobs.shape[waiting].tolist()])
    return by_key(waiting, np.where(aged, 0.0, 1.0 + 1000.0 * area))


def start_elastic(draft: Draft, ordered: Rows, worth: Worth) -> None:
    """Starts what fits, in this order, each job at the size that is worth most."""
    snapshot, failed = draft.snapshot, set[tuple[int, int]]()
    rows = may_fit(draft, ordered).tolist()
    sizes = starting_sizes(draft, rows[:MANY], worth) if rows else {}
    for row in rows:
        alike = (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        placement = None if alike in failed else _best_place(draft, row, sizes.get(row), worth)
        if placement is not None:
            draft.start(row, placement)
        elif row not in sizes or sizes[row] == worth.path(row)[0]:
            failed.add(alike)


def starting_sizes(draft: Draft, rows: list[int], worth: Worth) -> dict[int, Counts]:
    """Sizes for waiting jobs, from what is free. Running jobs that would grow compete for it, but are not changed."""
    snapshot = draft.snapshot
    budget: FloatArray = draft.free.clip(min=0).sum(axis=1).astype(np.float64)
    sizes: dict[int, Counts] = {}
    for row in rows:
        least = worth.path(row)[0]
        cost = demand(snapshot, row, least)
        if all_of(cost <= budget):
            budget -= cost
            sizes[row] = least
    return contested(worth, sizes, budget)


def _best_place(draft: Draft, row: int, size: Counts | None, worth: Worth) -> Placement | None:
    """At this size or a smaller one, whichever is fastest where it would be; at its min where no size was chosen."""
    snapshot, shape, path = draft.snapshot, draft.snapshot.jobs.shape_at(row), worth.path(row)
    wanted = path.index(size) if size in path else 0
    best: tuple[float, Placement] | None = None
    for counts in reversed(path[: wanted + 1]):
        ideal = worth.best_speed(row, counts)
        if best is not None and ideal <= best[0]:
            break
        placement = place_near(snapshot, draft.free, shape, counts, worth.terms.affinity)
        if placement is not None:
            speed = worth.speed(row, placement)
            best = (speed, placement) if best is None or speed > best[0] else best
    return None if best is None else best[1]
