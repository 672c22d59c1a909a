"""Starting waiting jobs at a size of their own: first the min of each, then more for the job that gains most from it.

What running jobs would gain from growing counts too, so that a new job does not take what is worth more to another one.
Running jobs are not changed here.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.policies.placing.affinity import place_near
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


def start_newcomers(draft: Draft, ordered: Rows, worth: Worth) -> None:
    """Starts what fits, in this order, each job at the size that is worth most."""
    snapshot, failed = draft.snapshot, set[tuple[int, int]]()
    rows = may_fit(draft, ordered).tolist()
    sizes = newcomer_sizes(draft, rows[:MANY], worth) if rows else {}
    for row in rows:
        alike = (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        placement = None if alike in failed else _best_place(draft, row, sizes.get(row), worth)
        if placement is not None:
            draft.start(row, placement)
        elif row not in sizes or sizes[row] == worth.path(row)[0]:
            failed.add(alike)


class SizeStep(NamedTuple):
    """A larger size for one job. The best one compares as the smallest."""

    price: float
    """Minus the gain per share."""
    row: int
    counts: Counts


def newcomer_sizes(draft: Draft, rows: list[int], worth: Worth) -> dict[int, Counts]:
    """Sizes for waiting jobs, from what is free. Running jobs that would grow compete for it, but are not changed."""
    snapshot = draft.snapshot
    budget = [float(amount) for amount in draft.free.clip(min=0).sum(axis=1)]
    sizes: dict[int, Counts] = {}
    for row in rows:
        least = worth.path(row)[0]
        if _pays(budget, demand(snapshot, row, least)):
            sizes[row] = least
    others = [row for row in worth.columns.others if worth.known(row)]
    now = sizes | {row: snapshot.placements[row].counts for row in others}
    steps = [step for row in now if (step := _next(worth, row, now[row])) is not None]
    steps += _running_steps(worth, budget)
    heapq.heapify(steps)
    while steps:
        _, row, counts = heapq.heappop(steps)
        before = now[row] if row in now else snapshot.placements[row].counts
        if not _pays(budget, demand(snapshot, row, counts) - demand(snapshot, row, before)):
            continue
        now[row] = counts
        step = _next(worth, row, counts)
        if step is not None:
            heapq.heappush(steps, step)
    return {row: now[row] for row in sizes}


def _pays(budget: list[float], cost: FloatArray) -> bool:
    """Takes the cost out of the budget, if that is enough."""
    costs = cost.tolist()
    if any(amount > has for amount, has in zip(costs, budget, strict=True)):
        return False
    for kind, amount in enumerate(costs):
        budget[kind] -= amount
    return True


def _running_steps(worth: Worth, budget: list[float]) -> list[SizeStep]:
    """The next sizes of running jobs that gain and that the budget still pays for: it only becomes smaller."""
    columns, shapes = worth.columns, worth.snapshot.jobs.shapes
    counts = columns.count.tolist()
    larger = columns.following.tolist()
    asks = {number: shapes[number].roles[0].asks for number in set(columns.shape.tolist())}
    places = [
        place for place, (number, size) in enumerate(zip(columns.shape.tolist(), larger, strict=True))
        if size and all(amount * (size - counts[place]) <= budget[kind] for kind, amount in asks[number])
    ]  # fmt: skip
    at = np.array(places, np.intp)
    now, then = (speed[at] for speed in columns.ideal)
    gain = columns.values_at(at, then) - columns.values_at(at, now)
    share = columns.share_at(at, columns.following[at]) - columns.share_at(at, columns.count[at])
    prices = (-gain / np.maximum(share, 1e-9)).tolist()
    gains, rows = gain.tolist(), columns.rows[at].tolist()
    return [
        SizeStep(price, row, (larger[place],))
        for place, row, price, gained in zip(places, rows, prices, gains, strict=True)
        if gained > 0
    ]


def _next(worth: Worth, row: int, counts: Counts) -> SizeStep | None:
    """The next larger size on the job's path with its gain per share, ready for a heap; None where there is none."""
    table = worth.table(row)
    if table is not None and worth.known(row):
        larger: Counts | None = (table.following[counts[0]],) if table.following[counts[0]] else None
    else:
        larger = next((size for size in worth.path(row) if sum(size) > sum(counts)
                       and all(a >= b for a, b in zip(size, counts, strict=True))), None)  # fmt: skip
    if larger is None:
        return None
    gain = worth.of(row, worth.best_speed(row, larger)) - worth.of(row, worth.best_speed(row, counts))
    share = worth.share(row, larger) - worth.share(row, counts)
    return SizeStep(-gain / max(share, 1e-9), row, larger) if gain > 0 else None


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
