"""Migration, after SpeCon: slow-growing jobs leave those that still learn, for nodes where they are few and soon done.

1. A job starts on an empty node, or where fewest are. Once there are `crowd` jobs to a node, newcomers start beside the
   others on the fullest node instead, and the rest is kept for jobs that move there, few at a time: where lengths are
   alike, most jobs are sooner done in turn than all together. This is done only where that holds, where jobs are in
   each other's way at all, and where one move a round is enough to reach all nodes in time.
2. At most one job a round moves, where that saves more than it costs and nobody else loses much: `separate`.

Who is slow and how long each has left is the book's word. A job that is not believed is never moved and counts as fast;
where most are not believed, newcomers are spread, so that without predictions this is plain spreading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.estimates.models.sharing import Claim, ends
from headway.policies.placing.spread import replicas, spread_out
from headway.policies.steps.relocate import Separation, separate
from headway.policies.value.neighbours import Tenancy, tenancy

IN_TURN = 0.8
"""Mean time of groups one after another, as a share of that of all together, from which on it is worth the moves."""
MOST_VARIANCE = 0.5
"""Of lengths, as a share of their mean squared. At 1 serving in turn is no better than sharing, whatever is moved."""
FEWEST = 4
"""Believed jobs that it takes to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    crowd: float = 1.5
    """Jobs to a node from which on newcomers share one node, while others are kept for those that move."""
    restart: float = 10.0
    """Seconds that a move costs: save, stop, start elsewhere."""
    margin: float = 2.0
    """A move must save so many times what it costs, over all jobs; doubled with every move the job has behind it."""
    harm: float = 0.02
    """Share of its time left that a move may cost a job which is not asked."""
    round: float = 10.0
    """Seconds between two moves."""
    cool_down: float = 60.0
    """Seconds from a job's start or last move to its next."""
    most_moves: int = 3
    """Of one job, interruptions counted; 0 moves nobody and spreads all."""
    interval: float = 10.0
    """Seconds after which growth is looked at again while jobs share nodes."""
    parallel: float = 1.0
    """Share of the work that cpu above the request speeds up, as Amdahl has it; 1: speed is in proportion to cpu."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        for row in snapshot.jobs.waiting().tolist():
            placement = spread_out(snapshot, draft.free, snapshot.jobs.shape_at(row), self._order(draft))
            if placement is not None:
                draft.start(row, placement)
        separate(draft, self.separation)
        return draft.plan()

    @property
    def separation(self) -> Separation:
        return Separation(
            restart=self.restart, margin=self.margin, harm=self.harm, round=self.round, cool_down=self.cool_down,
            most_moves=self.most_moves, interval=self.interval, parallel=self.parallel,
        )  # fmt: skip

    def _order(self, draft: Draft) -> FloatArray:
        """By node: the least is where a newcomer goes."""
        held, ready = replicas(draft), draft.snapshot.nodes.ready
        if not self.most_moves or not ready.any() or held[ready].min() <= 0:
            return held
        if held.sum() < self.crowd * int(ready.sum()):
            return held
        found = tenancy(draft, self.parallel)
        fullest = int(np.where(ready, held, -1.0).argmax())
        return -held if found is not None and self._drains(draft, found, fullest) else held

    def _drains(self, draft: Draft, found: Tenancy, node: int) -> bool:
        """Whether jobs will keep leaving this node: most are believed, and moves reach all nodes before they end."""
        shares = found.on.get(node, [])
        believed = [share for share in shares if share.believed]
        if not shares or 2 * len(believed) < len(shares):
            return False
        capacity = float(draft.snapshot.nodes.capacity[found.kind, node])
        last = max(ends(capacity, [share.tenant for share in believed], self.parallel))
        if last < (self.round + self.restart) * int(draft.snapshot.nodes.ready.sum()):
            return False
        if not alike(draft.snapshot, found):
            return False
        each = sum(len(on) for on in found.on.values()) / int(draft.snapshot.nodes.ready.sum())
        return in_turn_pays(
            max((share.tenant.claim for share in shares), key=lambda claim: claim.limit), capacity, each, self.parallel
        )


def alike(snapshot: Snapshot, found: Tenancy) -> bool:
    """Whether jobs are of like lengths, as far as is believed: else newcomers who are short wait for long ones."""
    rows = np.unique([share.row for on in found.on.values() for share in on if share.believed])
    if len(rows) < FEWEST:
        return False
    lengths = snapshot.jobs.trained_seconds(snapshot.now)[rows] + snapshot.estimates.left(snapshot.now)[rows]
    return bool(lengths.var() <= MOST_VARIANCE * lengths.mean() ** 2)


def in_turn_pays(claim: Claim, capacity: float, each: float, parallel: float) -> bool:
    """Whether jobs like this one, so many to a node, are sooner done in groups one after another than all together.

    Together all end at the same time. In groups the first ends after one group's time, the last after all of them. A
    group is as many as are not in each other's way: more would not be moved together.
    """

    def rate(share: float) -> float:
        return claim.speed(min(claim.limit, capacity / share), parallel)

    size = max(1.0, capacity // claim.limit)
    return each > size and (each / size + 1.0) / (2.0 * rate(size)) < IN_TURN / rate(each)
