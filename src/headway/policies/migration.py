"""Migration, after SpeCon: slow-growing jobs leave jobs that still learn, for nodes with few jobs that are soon done.

1. A job starts on an empty node, or where fewest are. Once there are `crowd` jobs per node, new jobs start on the
   fullest node instead. The other nodes are kept for jobs that move there, a few at a time: where lengths are alike,
   most jobs are done sooner in turn than all together. This is done only where that holds, where jobs slow each other
   down, and where one move a round is enough to reach all nodes in time.
2. At most one job a round moves, where that saves more than it costs and no other job loses much (`relocate`).

The book says which jobs are slow and how long each has left. A job that is not believed is never moved and counts as
fast. Where most are not believed, new jobs are spread. So without predictions this is plain spreading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.estimates.models.sharing import Claim, ends
from headway.policies.placing.spread import replicas, spread_out
from headway.policies.ranges import Factor
from headway.policies.steps.relocate import Relocation, relocate, verdict
from headway.policies.value.neighbours import Tenancy, tenancy

IN_TURN = 0.8
"""Groups one after another are worth the moves below this share of the mean time that all take together."""
MOST_VARIANCE = 0.5
"""Variance of lengths as a share of their mean squared. At 1, serving in turn is no better than sharing."""
FEWEST = 4
"""Min number of believed jobs to compare lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration(Relocation):
    """A policy; its settings are those of `relocate`, and one more."""

    crowd: Factor = 1.5
    """Jobs per node. From this number on new jobs share the fullest node, and other nodes are kept for moves."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        for row in snapshot.jobs.waiting().tolist():
            placement = spread_out(snapshot, draft.free, snapshot.jobs.shape_at(row), self._order(draft))
            if placement is not None:
                draft.start(row, placement)
        relocate(draft, self)
        return draft.plan()

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """Whether a running job moves now, and what that saves; or why it stays."""
        return {"move": verdict(snapshot, row, self)} if snapshot.jobs.state_of(row) is State.RUNNING else {}

    def _order(self, draft: Draft) -> FloatArray:
        """By node: a new job goes where this is smallest."""
        held, ready = replicas(draft), draft.snapshot.nodes.ready
        if not self.max_moves or not ready.any() or held[ready].min() <= 0:
            return held
        if held.sum() < self.crowd * int(ready.sum()):
            return held
        found = tenancy(draft, self.parallel)
        fullest = int(np.where(ready, held, -1.0).argmax())
        return -held if found is not None and self._drains(draft, found, fullest) else held

    def _drains(self, draft: Draft, found: Tenancy, node: int) -> bool:
        """Whether jobs will keep leaving this node: most are believed, and moves reach all nodes before they end."""
        neighbours = found.on.get(node, [])
        believed = [neighbour for neighbour in neighbours if neighbour.believed]
        if not neighbours or 2 * len(believed) < len(neighbours):
            return False
        capacity = float(draft.snapshot.nodes.capacity[found.kind, node])
        last = max(ends(capacity, [neighbour.tenant for neighbour in believed], self.parallel))
        if last < (self.round + self.restart) * int(draft.snapshot.nodes.ready.sum()):
            return False
        if not alike(draft.snapshot, found):
            return False
        each = sum(len(on) for on in found.on.values()) / int(draft.snapshot.nodes.ready.sum())
        largest = max((neighbour.tenant.claim for neighbour in neighbours), key=lambda claim: claim.limit)
        return in_turn_pays(largest, capacity, each, self.parallel)


def alike(snapshot: Snapshot, found: Tenancy) -> bool:
    """Whether jobs have similar lengths, as far as is believed. If not, short new jobs would wait for long ones."""
    rows = np.unique([neighbour.row for on in found.on.values() for neighbour in on if neighbour.believed])
    if len(rows) < FEWEST:
        return False
    lengths = snapshot.jobs.trained_seconds(snapshot.now)[rows] + snapshot.estimates.left(snapshot.now)[rows]
    return bool(lengths.var() <= MOST_VARIANCE * lengths.mean() ** 2)


def in_turn_pays(claim: Claim, capacity: float, each: float, parallel: float) -> bool:
    """Whether jobs like this one, `each` of them per node, are done sooner in groups one after another than all
    together.

    Together all end at the same time. In groups the first ends after one group's time, the last after all of them. A
    group is as many jobs as do not slow each other down; more would not be moved together.
    """

    def rate(jobs: float) -> float:
        return claim.speed(min(claim.limit, capacity / jobs), parallel)

    size = max(1.0, capacity // claim.limit)
    return each > size and (each / size + 1.0) / (2.0 * rate(size)) < IN_TURN / rate(each)
