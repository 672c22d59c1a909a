"""Shrinking for jobs that wait: running jobs give back replicas where that costs least, lonely ones first.

A lonely replica shares its node with few replicas of its gang. What the giving jobs lose must be less than what the
waiting job gains, unless it has waited long enough. All or nothing: it is tried on a copy.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.node import IntArray
from headway.core.placement import Placement, take
from headway.policies.placing.add_remove import SOON, leaving_order, may_scale, without
from headway.policies.placing.affinity import place_near
from headway.policies.steps.cool_down import rested_on
from headway.policies.steps.victims import still_needed
from headway.policies.value.worth import Worth


@dataclass(frozen=True, slots=True, order=True)
class Gift:
    """Replicas of one role that a job could do without. The cheapest compares as the smallest."""

    price: float
    """What is lost per share that is freed; below 0 where the job is faster without them."""
    row: int
    role: int
    nodes: tuple[int, ...]
    """The nodes of the replicas that would go."""


def shrink_for(
    draft: Draft, row: int, sizes: Sequence[Counts], givers: Iterable[int], worth: Worth, *, forced: bool = False
) -> Placement | None:
    """Makes room for a waiting job. Returns where it would go; None where nothing is decided.

    `sizes` are those that the job may have, the smallest first. The largest is chosen that gains more than others lose.
    `forced`: the smallest gets room whatever that costs. The job itself is not started: replicas are free only when
    they are gone, and the draft asks to be called then.
    """
    snapshot, shape = draft.snapshot, draft.snapshot.jobs.shape_at(row)
    pot = _Pot(draft, givers, worth)
    found: tuple[Placement, dict[int, Placement]] | None = None
    value, lost = 0.0, 0.0
    for counts in sizes:
        placement = pot.give_until(
            partial(place_near, snapshot, shape=shape, counts=counts, affinity=worth.terms.affinity)
        )
        if placement is None:
            break
        then = worth.of(row, worth.speed(row, placement))
        if then - value <= (1.0 + worth.terms.margin) * (pot.lost - lost) and not (forced and found is None):
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

    def __init__(self, draft: Draft, givers: Iterable[int], worth: Worth) -> None:
        self.free = draft.soon()
        self.lost = 0.0
        self.sizes: dict[int, Placement] = {}
        self._worth = worth
        self._roles: dict[int, int] = {}
        self._gifts: list[Gift] = []
        snapshot = draft.snapshot
        for row in givers:
            if draft.decided(row) is None and may_scale(snapshot, row) and worth.known(row):
                gift = cheapest_gift(worth, row, snapshot.placements[row])
                if gift is not None and rested_on(draft, row, worth.terms, for_others=True):
                    self._gifts.append(gift)
        heapq.heapify(self._gifts)

    def give_until(self, fits: Callable[[IntArray], Placement | None]) -> Placement | None:
        """Gives up the cheapest replicas again and again, until something fits or nothing is left to give."""
        while (placement := fits(self.free)) is None:
            if not self._gifts:
                return None
            gift = heapq.heappop(self._gifts)
            row, snapshot = gift.row, self._worth.snapshot
            before = self.sizes.get(row, snapshot.placements[row])
            after = without(before, gift.role, gift.nodes)
            vector = before.vector(snapshot.jobs.shape_at(row), gift.role)
            for node in gift.nodes:
                self.free[:, node] += vector
            self.lost += _value(self._worth, row, before) - _value(self._worth, row, after)
            self.sizes[row], self._roles[row] = after, gift.role
            following = cheapest_gift(self._worth, row, after, gift.role)
            if following is not None:
                heapq.heappush(self._gifts, following)
        return placement


def cheapest_gift(worth: Worth, row: int, now: Placement, only: int | None = None) -> Gift | None:
    """The replicas that cost the job least for what they free: the loneliest one, or all on the loneliest node."""
    best: Gift | None = None
    value, share = _value(worth, row, now), worth.share(row, now.counts)
    for number, role in enumerate(worth.snapshot.jobs.shape_at(row).roles):
        spare = len(now.nodes[number]) - role.least
        if spare <= 0 or (only is not None and number != only):
            continue
        order = leaving_order(now, number)
        for count in {1, min(spare, order.count(order[0]))}:
            smaller = without(now, number, order[:count])
            price = (value - _value(worth, row, smaller)) / max(share - worth.share(row, smaller.counts), 1e-9)
            gift = Gift(price, row, number, order[:count])
            best = gift if best is None or gift < best else best
    return best


def _value(worth: Worth, row: int, placement: Placement) -> float:
    return worth.of(row, worth.speed(row, placement))


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
