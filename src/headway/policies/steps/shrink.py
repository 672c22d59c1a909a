"""Shrinking for jobs that wait: running jobs give back replicas where that costs least, lonely ones first.

A lonely replica shares its node with few replicas of its gang. What the giving jobs lose must be less than what the
waiting job gains, unless it has waited long enough. All or nothing: it is tried on a copy.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.placement import Placement, take
from headway.estimates.sizes.table import SizeTable
from headway.policies.placing.add_remove import SOON, leaving_order, without
from headway.policies.placing.affinity import place_near
from headway.policies.placing.room import room
from headway.policies.steps.cool_down import rested_on
from headway.policies.steps.victims import still_needed
from headway.policies.value.worth import Worth


class Gift(NamedTuple):
    """Replicas of one role that a job could do without. The cheapest compares as the smallest."""

    price: float
    """What is lost per share that is freed; below 0 where the job is faster without them."""
    row: int
    role: int
    many: int
    """How many would go, the loneliest first."""

    def nodes(self, now: Placement) -> tuple[int, ...]:
        """The nodes of the replicas that would go."""
        return leaving_order(now, self.role)[: self.many]


def shrink_for(
    draft: Draft, row: int, sizes: Sequence[Counts], worth: Worth, *, forced: bool = False
) -> Placement | None:
    """Makes room for a waiting job: running jobs give. Returns where it would go; None where nothing is decided.

    `sizes` are those that the job may have, the smallest first. The largest is chosen that gains more than others lose.
    `forced`: the smallest gets room whatever that costs. The job itself is not started: replicas are free only when
    they are gone, and the draft asks to be called then.
    """
    snapshot, margin = draft.snapshot, 1.0 + worth.terms.margin
    pot = _Pot(draft, worth, row)
    found: tuple[Placement, dict[int, Placement]] | None = None
    value, lost = 0.0, 0.0
    for counts in sizes:
        must = forced and found is None
        most = math.inf if must else (worth.value_at(row, worth.best_speed(row, counts)) - value) / margin
        placement = pot.give_until_fits(counts, lost + most)
        if placement is None:
            break
        then = worth.value_at(row, worth.speed(row, placement))
        if then - value <= margin * (pot.lost - lost) and not must:
            break
        found, value, lost = (placement, dict(pot.sizes)), then, pot.lost
    if found is None:
        return None
    kept = _needed(draft, found[1], row, found[0])
    if not kept:
        return None
    for giver, size in kept.items():
        number = next(i for i, nodes in enumerate(size.nodes) if nodes != snapshot.placements[giver].nodes[i])
        draft.scale(giver, number, size.nodes[number])
    draft.wake(snapshot.now + SOON)
    return found[0]


class _Pot:
    """What would be free after some jobs have given up replicas."""

    def __init__(self, draft: Draft, worth: Worth, row: int) -> None:
        self.free = draft.soon()
        self.lost = 0.0
        self.sizes: dict[int, Placement] = {}
        self._worth = worth
        self._shape = worth.snapshot.jobs.shape_at(row)
        self._suits = [worth.snapshot.nodes.mask(role.constraint) for role in self._shape.roles]
        self._room = [room(worth.snapshot.nodes, self.free, role) for role in self._shape.roles]
        self._rooms = [int(np.add.reduce(takes)) for takes in self._room]
        """On all nodes together."""
        self._values: dict[int, float] = {}
        """By row: what a job that has given is worth as it would be."""
        self._gifts: list[tuple[float, int, int, int]] = _first_gifts(draft, worth)
        """A heap of the fields of `Gift`: most are never taken."""
        heapq.heapify(self._gifts)

    def give_until_fits(self, counts: Counts, most: float) -> Placement | None:
        """Gives up the cheapest replicas again and again, until this many of the waiting job fit. None where nothing is
        left to give, or where more is lost than `most`: then it is not worth it.
        """
        snapshot, terms = self._worth.snapshot, self._worth.terms
        while True:
            if self._might_take(counts):
                placement = place_near(snapshot, self.free, self._shape, counts, terms.affinity)
                if placement is not None:
                    return placement
            if not self._gifts or self.lost >= most:
                return None
            self._give(Gift._make(heapq.heappop(self._gifts)))

    def _give(self, gift: Gift) -> None:
        row, snapshot = gift.row, self._worth.snapshot
        before = self.sizes.get(row, snapshot.placements[row])
        nodes = gift.nodes(before)
        after = without(before, gift.role, nodes)
        vector, free = before.vector(snapshot.jobs.shape_at(row), gift.role), self.free
        for node in nodes:
            free[:, node] += vector
        for number, role in enumerate(self._shape.roles):
            suits, takes = self._suits[number], self._room[number]
            for node in set(nodes):
                fit = [free.item(kind, node) // amount for kind, amount in role.asks]
                now = max(0, min(fit, default=max(role.max, 1))) if suits[node] else 0
                self._rooms[number] += now - takes.item(node)
                takes[node] = now
        value, then = self._values.get(row), _value(self._worth, row, after)
        self.lost += (_value(self._worth, row, before) if value is None else value) - then
        self.sizes[row], self._values[row] = after, then
        following = cheapest_gift(self._worth, row, after, gift.role)
        if following is not None:
            heapq.heappush(self._gifts, following)

    def _might_take(self, counts: Counts) -> bool:
        """Each role by itself; together they may still not fit."""
        return all(takes >= count for takes, count in zip(self._rooms, counts, strict=True))


def _first_gifts(draft: Draft, worth: Worth) -> list[tuple[float, int, int, int]]:
    """The cheapest gift of each running job that may be changed now. For others, the plan asks to be called then."""
    columns, now = worth.columns, draft.snapshot.now
    prices, counts = columns.gifts
    may = counts > 0
    decided = draft.decided_rows()
    if decided:
        may = may & ~np.isin(columns.rows, decided)
    due = draft.snapshot.jobs.touched[columns.rows] + worth.terms.cool_down
    later = due[may & (now < due)]
    if len(later):
        draft.wake(float(later.min()))
    chosen = (may & (now >= due)).nonzero()[0]
    rows, many = columns.rows[chosen].tolist(), counts[chosen].tolist()
    gifts: list[tuple[float, int, int, int]] = list(zip(prices[chosen].tolist(), rows, repeat(0), many, strict=False))
    for row in columns.others:
        if draft.decided(row) is None and worth.known(row):
            gift = cheapest_gift(worth, row, draft.snapshot.placements[row])
            if gift is not None and rested_on(draft, row, worth.terms, for_others=True):
                gifts.append(gift)
    return gifts


def cheapest_gift(worth: Worth, row: int, now: Placement, only: int | None = None) -> Gift | None:
    """The replicas that cost the job least for what they free: the loneliest one, or all on the loneliest node."""
    best: Gift | None = None
    table = worth.table(row)
    if table is not None and now.requests is None and len(now.nodes[0]) <= table.span.max:
        return _cheapest_of_table(worth, table, row, now)
    value, share = _value(worth, row, now), worth.share(row, now.counts)
    for number, role in enumerate(worth.snapshot.jobs.shape_at(row).roles):
        spare = len(now.nodes[number]) - role.min
        if spare <= 0 or (only is not None and number != only):
            continue
        order = leaving_order(now, number)
        for count in {1, min(spare, order.count(order[0]))}:
            smaller = without(now, number, order[:count])
            price = (value - _value(worth, row, smaller)) / max(share - worth.share(row, smaller.counts), 1e-9)
            gift = Gift(price, row, number, count)
            best = gift if best is None or gift < best else best
    return best


_replicas = itemgetter(1)
"""Of a node and the number of replicas there."""


def _cheapest_of_table(worth: Worth, table: SizeTable, row: int, now: Placement) -> Gift | None:
    """The same for a job of one role."""
    spots, has = now.spots[0], len(now.nodes[0])
    spare = has - worth.snapshot.jobs.shape_at(row).roles[0].min
    if spare <= 0:
        return None
    lonely = min(spots, key=_replicas)[1]
    value, share = worth.value_at(row, table.placed(has, len(spots))), worth.share(row, (has,))
    gifts = []
    for count in {1, min(spare, lonely)}:
        then = worth.value_at(row, table.placed(has - count, len(spots) - (count == lonely)))
        gifts.append(Gift((value - then) / max(share - worth.share(row, (has - count,)), 1e-9), row, 0, count))
    return min(gifts)


def _value(worth: Worth, row: int, placement: Placement) -> float:
    return worth.value_at(row, worth.speed(row, placement))


def _needed(draft: Draft, sizes: dict[int, Placement], row: int, placement: Placement) -> dict[int, Placement]:
    """The new sizes of jobs that must really shrink for this placement; the others keep what they have."""
    snapshot = draft.snapshot
    free = draft.soon()
    take(free, placement, snapshot.jobs.shape_at(row))
    for giver, size in sizes.items():
        shape = snapshot.jobs.shape_at(giver)
        take(free, snapshot.placements[giver], shape, +1)
        take(free, size, shape)
    needed = still_needed(snapshot, free, sizes)
    return {giver: size for giver, size in sizes.items() if giver in needed}
