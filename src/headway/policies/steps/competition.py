"""Who gets what is free: waiting and running jobs compete for it, step by step, each along its own sizes.

The step that gains most per share comes first. Running jobs are not changed: they only keep new jobs from taking what
is worth more to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from headway.core.estimates import Counts
from headway.core.node import BoolArray, FloatArray, IntArray
from headway.estimates.sizes.table import SizeTable
from headway.policies.value.chains import LargerSizes, highest_so_far, paid_for, up_to
from headway.policies.value.formula import bounded, column, time_weight
from headway.policies.value.sizes import demand
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth


class SizeSteps(NamedTuple):
    """Steps of several jobs, each job's together and in order."""

    row: Rows
    first: BoolArray
    """Whether it is its job's first step."""
    price: FloatArray
    """Minus the gain per share; the highest of the job's steps so far."""
    cost: FloatArray
    """(kinds, steps): what is held after the step and was not before."""
    size: Sequence[int | Counts]
    """After the step; a plain number for a job of one role."""

    def upto(self, price: float) -> SizeSteps:
        """Without the dearer steps, and without sizes."""
        kept = self.price <= price
        return SizeSteps(self.row[kept], self.first[kept], self.price[kept], self.cost[:, kept], ())


def contested(worth: Worth, sizes: dict[int, Counts], budget: FloatArray) -> dict[int, Counts]:
    """Sizes of waiting jobs after all have taken what the budget pays for. `sizes`: what they begin with."""
    new = [*_of_waiting(worth, sizes, budget), *_one_by_one(worth, sizes)]
    if not new:
        return sizes
    # A running job's step that comes after all of these changes nothing.
    dearest = max(float(one.price.max()) for one in new)
    held = {row: worth.snapshot.placements[row].counts for row in worth.columns.others if worth.known(row)}
    rivals = [*_of_running(worth, budget), *_one_by_one(worth, held)]
    steps = [*new, *(one.upto(dearest) for one in rivals)]
    row, first, price, cost = (np.concatenate([one[each] for one in steps], axis=-1) for each in range(4))
    order = np.lexsort((row, price))
    paid: BoolArray = np.zeros(len(row), np.bool_)
    paid[order] = paid_for(np.cumsum(first)[order], cost[:, order], budget)
    reached, found = [size for one in new for size in one.size], dict(sizes)
    for place in paid[: len(reached)].nonzero()[0].tolist():
        size = reached[place]
        found[row.item(place)] = size if isinstance(size, tuple) else (int(size),)
    return found


def _of_waiting(worth: Worth, sizes: dict[int, Counts], budget: FloatArray) -> list[SizeSteps]:
    """Waiting jobs of one role."""
    tables = {row: table for row in sizes if (table := worth.table(row)) is not None and worth.known(row)}
    if not tables:
        return []
    rows, count = np.array(list(tables), np.intp), np.array([sizes[row][0] for row in tables], np.int64)
    work = np.array([worth.work(row) for row in tables])
    weight = np.array([time_weight(left, worth.terms) for left in work.tolist()])
    shape = worth.snapshot.jobs.shape[rows]
    asked = worth.columns.asked_weight[shape]
    now = np.array([table.speeds[sizes[row][0]] for row, table in tables.items()])
    jobs = _OneRole(rows, shape, list(tables.values()), count, now)
    return _steps(worth, jobs, budget, lambda at, speed: column(speed, asked[at], work[at], weight[at], worth.terms))


def _of_running(worth: Worth, budget: FloatArray) -> list[SizeSteps]:
    """Running jobs of one role."""
    columns = worth.columns
    jobs = _OneRole(columns.rows, columns.shape, columns.tables, columns.count, columns.ideal)
    return _steps(worth, jobs, budget, columns.values_at)


class _OneRole(NamedTuple):
    rows: Rows
    shape: IntArray
    tables: Sequence[SizeTable]
    replicas: Rows
    speed: FloatArray
    """In the best place."""


def _steps(
    worth: Worth, jobs: _OneRole, budget: FloatArray, value: Callable[[Rows, FloatArray], FloatArray]
) -> list[SizeSteps]:
    """The steps of each job that gain, one after another, as far as the whole budget would pay for them."""
    sizes, roles = worth.sizes, {n: worth.snapshot.jobs.shapes[n].roles[0] for n in set(jobs.shape.tolist())}
    more, vectors = np.zeros(len(sizes.spans), np.int64), np.zeros((len(budget), len(sizes.spans)))
    left = budget.tolist()
    for number, role in roles.items():
        more[number] = min(left[kind] // amount for kind, amount in role.asks)
        vectors[:, number] = role.vector
    may = (more[jobs.shape] > 0).nonzero()[0]
    if not len(may):
        return []
    tables = [jobs.tables[place] for place in may.tolist()] if len(may) < len(jobs.rows) else jobs.tables
    larger = LargerSizes.of(tables, jobs.replicas[may], more[jobs.shape[may]])
    if not len(larger.owner):
        return []
    at = may[larger.owner]
    shape, worth_of = jobs.shape[at], value(at, larger.speed)
    before = np.concatenate([[0.0], worth_of[:-1]])
    before[larger.first] = value(at[larger.first], jobs.speed[at[larger.first]])
    gain = worth_of - before
    kept = up_to(gain <= 0.0, larger.first)
    one, unit = sizes.amount[shape], sizes.whole[shape]
    share = bounded(one * larger.size / unit) - bounded(one * larger.before / unit)
    price = highest_so_far((-gain / np.maximum(share, 1e-9))[kept], larger.first[kept])
    cost = vectors[:, shape[kept]] * (larger.size - larger.before)[kept]
    if not len(price):
        return []
    return [SizeSteps(jobs.rows[at[kept]], larger.first[kept], price, cost, larger.size[kept].tolist())]


def _one_by_one(worth: Worth, sizes: dict[int, Counts]) -> list[SizeSteps]:
    """Jobs that have no table: their paths are walked size by size."""
    found = []
    for row, begins in sizes.items():
        if worth.table(row) is not None and worth.known(row) and row not in worth.snapshot.placements:
            continue
        prices, costs, reached, now = list[float](), list[FloatArray](), list[Counts](), begins
        while (step := _next(worth, row, now)) is not None:
            prices.append(max([step[0], *prices[-1:]]))
            costs.append(demand(worth.snapshot, row, step[1]) - demand(worth.snapshot, row, now))
            now = step[1]
            reached.append(now)
        if prices:
            first: BoolArray = np.arange(len(prices)) == 0
            rows = np.full(len(prices), row, np.intp)
            found.append(SizeSteps(rows, first, np.array(prices), np.array(costs).T, reached))
    return found


def _next(worth: Worth, row: int, counts: Counts) -> tuple[float, Counts] | None:
    """The next larger size on the job's path, with minus its gain per share; None where none gains."""
    table = worth.table(row)
    if table is not None and worth.known(row):
        following = table.following(counts[0])
        larger: Counts | None = (following,) if following else None
    else:
        larger = next((size for size in worth.path(row) if sum(size) > sum(counts)
                       and all(a >= b for a, b in zip(size, counts, strict=True))), None)  # fmt: skip
    if larger is None:
        return None
    gain = worth.value_at(row, worth.best_speed(row, larger)) - worth.value_at(row, worth.best_speed(row, counts))
    share = worth.share(row, larger) - worth.share(row, counts)
    return (-gain / max(share, 1e-9), larger) if gain > 0 else None
