"""The larger sizes of many jobs, in the order in which a greedy budget would pay for them.

Each job takes its sizes one after another, along its path: a chain. Of all chains the cheapest next step comes first.
Instead of one heap of single steps there are columns of all steps. A step that is cheaper than one before it in its
chain comes right after that one, so the order is by the highest price up to each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.core.flags import all_of, any_of
from headway.core.node import BoolArray, FloatArray
from headway.estimates.sizes.table import SizeTable
from headway.policies.value.times import Rows

_APART = 1 << 20
"""Above any number of replicas: tells the paths of different tables apart."""


class LargerSizes(NamedTuple):
    """Steps of all jobs, job after job, each from one size on its path to the next."""

    owner: Rows
    """The place of the job."""
    first: BoolArray
    """Whether it is the job's first step."""
    size: Rows
    before: Rows
    """The size that the step begins at."""
    speed: FloatArray
    """In the best place, at the larger size."""

    @classmethod
    def of(cls, tables: Sequence[SizeTable], count: Rows, more: Rows) -> LargerSizes:
        """From `count` replicas of each job on, with up to `more` further ones."""
        numbers: dict[int, int] = {}
        which = np.array([numbers.setdefault(id(table), len(numbers)) for table in tables], np.int64) * _APART
        distinct = list({id(table): table for table in tables}.values())
        size, speed = (np.concatenate(each) for each in zip(*(table.path_columns for table in distinct), strict=True))
        lengths = [len(table.path) for table in distinct]
        keys = size + np.repeat(np.arange(len(distinct)) * _APART, lengths)
        begins = keys.searchsorted(which + count, side="right")
        steps = keys.searchsorted(which + np.minimum(count + more, _APART - 1), side="right") - begins
        owner = np.repeat(np.arange(len(count)), steps)
        at = np.arange(len(owner)) + np.repeat(begins - (np.cumsum(steps) - steps), steps)
        first: BoolArray = at == begins[owner]
        return cls(owner, first, size[at], np.where(first, count[owner], size[at - 1]), speed[at])


def up_to(stop: BoolArray, first: BoolArray) -> BoolArray:
    """Steps of chains before the first at which each has to stop."""
    stops = np.cumsum(stop)
    before = np.maximum.accumulate(np.where(first, stops - stop, 0))
    found: BoolArray = stops == before
    return found


def highest_so_far(price: FloatArray, first: BoolArray) -> FloatArray:
    """By step: the highest price of it and the steps before it in its chain."""
    found: FloatArray = price.copy()
    lower = (~first[1:] & (found[1:] < found[:-1])).nonzero()[0] + 1
    while len(lower):
        found[lower] = np.maximum(found[lower], found[lower - 1])
        after = lower[lower + 1 < len(found)] + 1
        lower = after[~first[after] & (found[after] < found[after - 1])]
    return found


def paid_for(chain: Rows, cost: FloatArray, budget: FloatArray) -> BoolArray:
    """Which steps a budget pays for, in this order. A chain ends with the first step for which too little is left.

    `chain`: the chain of each step. `cost`: (kinds, steps). The budget only becomes smaller.
    """
    paid = np.zeros(len(chain), np.bool_)
    left, budget = np.arange(len(chain)), budget.copy()
    while len(left):
        wants = cost[:, left]
        dear: BoolArray = np.logical_or.reduce(wants > budget[:, None])
        if any_of(dear):
            ends = np.full(int(chain.max()) + 1, len(left))
            np.minimum.at(ends, chain[left[dear]], dear.nonzero()[0])
            kept = np.arange(len(left)) < ends[chain[left]]
            left, wants = left[kept], wants[:, kept]
        together = np.cumsum(wants, axis=1)
        enough: BoolArray = np.logical_and.reduce(together <= budget[:, None])
        many = len(left) if all_of(enough) else int(enough.argmin())
        paid[left[:many]] = True
        if many:
            budget -= together[:, many - 1]
        left = left[many:]
    return paid
