"""What a size is worth: how soon a job would be done at it, in this place, beside other jobs that could use the room.

Worth is progress per second, and more for a job with less left. With `favour` 1 it is one over the seconds left: then
what is given to a job that is soon done counts most, and mean completion time falls fastest. Gains and losses are
differences of worth per share of the cluster. So one more worker here can be weighed against one less there.

Speeds come from the estimates, which answer for numbers of replicas in their best place. What a worse place costs is
taken from them, too. Where a gang grows beyond a node, its speed makes a step. A gang on more nodes than it needs, or
with servers away from its workers, is taken to lose as much.

A job of one role has a table of its sizes (`table`); others are looked at size by size.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from headway.core.estimates import Counts
from headway.core.job import computes, worker_role
from headway.core.jobs.shapes import dominant_share
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.estimates.sizes.holder import ShapeSizes, SizesHolder, holder_of
from headway.estimates.sizes.table import LONGEST_PATH, SizeTable, usable
from headway.policies.placing.pack import place
from headway.policies.placing.room import empty
from headway.policies.value.columns import SizeColumns
from headway.policies.value.formula import MAX_SHARE, MIN_SHARE, overrun, share_weight, soonest, time_weight, worth
from headway.policies.value.sizes import (
    UNKNOWN_SECONDS,
    bounds,
    demand,
    held,
    larger_sizes,
    may_resize_gang,
)
from headway.policies.value.terms import Terms

FARTHEST = 4.0
"""This many nodes apart, servers and workers are as far apart as they can be."""
MARK = 1
"""Thousandths of a core that a job which was cut too deep never gets back, as a mark: see `release`."""


class Worth:
    """Worth of the jobs of one snapshot, under given terms. Everything is computed when first asked for."""

    def __init__(self, snapshot: Snapshot, terms: Terms) -> None:
        self.snapshot = snapshot
        self.terms = terms
        self._whole = snapshot.nodes.total()
        self._left: FloatArray | None = None
        self._tables: dict[int, SizeTable | None] = {}
        self._work: dict[int, float] = {}
        self._weights: dict[int, tuple[float, float, float]] = {}
        self._per_node: dict[int, int] = {}
        self._units: dict[int, tuple[float, float] | None] = {}
        self._shares: dict[tuple[int, Counts], float] = {}
        self._paths: dict[int, list[Counts]] = {}
        self._losses: dict[tuple[int, int, bool], float] = {}

    def why_not(self, row: int) -> str:
        """Why this job keeps its size, in a sentence; empty where it may be scaled."""
        if not may_resize_gang(self.snapshot, row):
            return "It keeps its size: it is not elastic, or does not allow scaling."
        if not self.snapshot.estimates.known:
            return "It keeps its size: nothing is known of its speed or time, because no estimates are kept."
        if self.is_unknown(row):
            return "It keeps its size: how long it has left is unknown."
        if not self._sane(row):
            return "It keeps its size: the estimate of its speed is no usable number."
        return ""

    def known(self, row: int) -> bool:
        return not self.why_not(row)

    def is_unknown(self, row: int) -> bool:
        """Whether nothing is known of how long it takes."""
        return math.isnan(self._seconds(row))

    def work(self, row: int) -> float:
        """Seconds left at the asked-for size; a guess where unknown."""
        known = self._work.get(row)
        if known is None:
            seconds, placement = self._seconds(row), self.snapshot.placements.get(row)
            if math.isnan(seconds):
                known = UNKNOWN_SECONDS
            elif placement is None:
                known = seconds
            else:
                known = seconds * self.speed(row, placement)
            self._work[row] = known = known if math.isfinite(known) and known > 0 else 0.0
        return known

    def speed(self, row: int, placement: Placement) -> float:
        """Relative to the asked-for size in its best place; 0 where the estimate is NaN or infinite."""
        table = self.table(row)
        if table is not None and len(placement.nodes[0]) <= table.span.max:
            return table.placed(len(placement.nodes[0]), len(placement.spots[0]))
        ideal = self.best_speed(row, placement.counts)
        per_node = self._workers_per_node(row)
        if not per_node or ideal <= 0:
            return ideal
        workers, servers = self._split(row, placement)
        if not workers:
            return ideal
        pairs = sum(workers.count(node) for node in servers)
        apart = len(workers) * len(servers) / pairs if pairs else FARTHEST
        spread = min(FARTHEST, max(float(len(set(workers))), apart)) if servers else float(len(set(workers)))
        fewest = -(-len(workers) // per_node)
        for nodes in range(fewest + 1, math.ceil(spread) + 1):
            ideal *= self._loss(row, nodes, bool(servers)) ** min(1.0, spread - nodes + 1.0)
        return ideal

    def speed_with(self, row: int, now: Placement, role: int, more: tuple[int, ...]) -> float:
        """The same with more replicas of one role on these nodes."""
        table, count = self.table(row), len(now.nodes[role]) + len(more)
        if table is not None and count <= table.span.max:
            return table.placed(count, len(set(now.nodes[role]).union(more)))
        return self.speed(row, now.with_role(role, (*now.nodes[role], *more)))

    def best_speed(self, row: int, counts: Counts) -> float:
        """Speed of this many replicas in their best place; 0 where the estimate is NaN or infinite."""
        if not self.snapshot.estimates.known:
            return 0.0
        table = self.table(row)
        if table is not None and counts[0] <= table.span.max:
            return table.speeds[counts[0]]
        return usable(self.snapshot.estimates.speed(row, counts))

    def table(self, row: int) -> SizeTable | None:
        """Its sizes as a table; None where they are looked at one by one."""
        try:
            return self._tables[row]
        except KeyError:
            known = self._tables[row] = self._table(row)
            return known

    def seconds(self, row: int, speed: float) -> float:
        """Seconds until the job is done at this speed."""
        return self.work(row) / speed if speed > 0 else math.inf

    def value_at(self, row: int, speed: float) -> float:
        """What running at this speed is worth."""
        if speed <= 0:
            return 0.0
        known = self._weights.get(row)
        if known is None:
            work, asked = self.work(row), self.share(row, self.snapshot.jobs.shape_at(row).counts)
            known = self._weights[row] = share_weight(asked, self.terms), work, time_weight(work, self.terms)
        asked, work, weight = known
        at_once = soonest(speed, self.terms)
        return worth(speed, asked, time_weight(at_once, self.terms) if work < at_once else weight)

    def share(self, row: int, counts: Counts) -> float:
        """Share of the cluster, the largest of any kind; above 0 and finite, so that it can be divided by."""
        try:
            unit = self._units[row]
        except KeyError:
            unit = self._units[row] = self._unit(row)
        if unit is not None:
            return min(max(unit[0] * counts[0] / unit[1], MIN_SHARE), MAX_SHARE)
        known = self._shares.get((row, counts))
        if known is None:
            known = dominant_share(demand(self.snapshot, row, counts), self._whole)
            self._shares[row, counts] = known = min(max(known, MIN_SHARE), MAX_SHARE)
        return known

    def cut(self, row: int) -> bool:
        """Whether the job has less cpu than it asked for, while the book answers for other sizes as asked for. Then its
        speeds cannot be compared, and it keeps its size.
        """
        placement, snapshot = self.snapshot.placements.get(row), self.snapshot
        if placement is None or placement.requests is None or CPU not in snapshot.nodes.kinds:
            return False
        if not snapshot.estimates.known or not snapshot.estimates.beliefs.rich:
            return False
        kind, shape = snapshot.nodes.kinds.index(CPU), snapshot.jobs.shape_at(row)
        return any(
            int(shape.roles[number].vector[kind]) - int(placement.vector(shape, number)[kind]) > MARK
            for number in range(len(shape.roles))
        )

    def path(self, row: int) -> list[Counts]:
        """Its sizes in their best place, from the min on, each faster than all before it.

        A job that keeps its size has that one only; its min, where the empty cluster cannot hold what it asks for.
        """
        known = self._paths.get(row)
        if known is None:
            known = self._paths[row] = self._path(row) if self.known(row) else [self._kept(row)]
        return known

    @cached_property
    def columns(self) -> SizeColumns:
        """The running jobs that may be scaled, as columns."""
        columns = SizeColumns.of(self.snapshot, self.holder, self.terms)
        self._tables.update(zip(columns.rows.tolist(), columns.tables, strict=True))
        return columns

    @cached_property
    def holder(self) -> SizesHolder:
        return holder_of(self.snapshot)

    @cached_property
    def sizes(self) -> ShapeSizes:
        return self.holder.shapes(self.snapshot)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _table(self, row: int) -> SizeTable | None:
        snapshot = self.snapshot
        span = self.sizes.spans[snapshot.jobs.columns.shapes[row]]
        placement = snapshot.placements.get(row)
        if span is None or not snapshot.estimates.known:
            return None
        if placement is not None and len(placement.nodes[0]) > span.max:
            return None
        return self.holder.table(snapshot.estimates.scaling(row, span), span)

    def _kept(self, row: int) -> Counts:
        snapshot, shape = self.snapshot, self.snapshot.jobs.shape_at(row)
        fixed = held(snapshot, row) or shape.counts
        if not may_resize_gang(snapshot, row) or row in snapshot.placements:
            return fixed
        return fixed if place(snapshot, empty(snapshot.nodes), shape) is not None else shape.min

    def _path(self, row: int) -> list[Counts]:
        least, most = bounds(self.snapshot, row)
        table = self.table(row)
        if table is not None and least[0] == table.span.min and most[0] >= table.span.max:
            return [(count,) for count in table.path]
        path, speed = [least], self.best_speed(row, least)
        while len(path) < LONGEST_PATH:
            options = [(self.best_speed(row, counts), counts) for counts in larger_sizes(path[-1], most)]
            gains = [((faster - speed) / (self.share(row, counts) - self.share(row, path[-1]) + 1e-9), faster, counts)
                     for faster, counts in options if faster > speed * (1.0 + 1e-6)]  # fmt: skip
            if not gains:
                return path
            enough = max(gain for gain, _, _ in gains) * (1.0 - 1e-6)
            _, speed, counts = min((found for found in gains if found[0] >= enough), key=lambda found: sum(found[2]))
            path.append(counts)
        return path

    def _seconds(self, row: int) -> float:
        snapshot = self.snapshot
        if not snapshot.estimates.known:
            return math.nan
        if self._left is None:
            self._left = snapshot.estimates.left(snapshot.now)
        seconds = float(self._left[row])
        if seconds <= 0.0 and row in snapshot.placements:
            return overrun(snapshot, np.array([row])).item()
        return seconds if math.isfinite(seconds) else math.nan

    def _sane(self, row: int) -> bool:
        """Whether the estimate of its present (or asked-for) speed is usable."""
        counts = held(self.snapshot, row) or self.snapshot.jobs.shape_at(row).counts
        return 0.0 < self.best_speed(row, counts) < math.inf

    def _split(self, row: int, placement: Placement) -> tuple[list[int], list[int]]:
        """Nodes of the replicas that compute, and of those that serve."""
        workers, servers = list[int](), list[int]()
        for role, where in zip(self.snapshot.jobs.shape_at(row).roles, placement.nodes, strict=True):
            (workers if computes(role.name) else servers).extend(where)
        return workers, servers

    def _loss(self, row: int, nodes: int, served: bool) -> float:
        """The factor in speed when a gang spreads from one node fewer to `nodes`: the step in the estimate where it
        outgrows them.

        With servers the step is taken where there are as many of them as workers, and the speed of the whole gang
        counts, because a batch is divided. Without servers the speed of one worker counts.
        """
        key = (row, nodes, served)
        known = self._losses.get(key)
        if known is None:
            fits = (nodes - 1) * self._workers_per_node(row)
            before, after = (self.best_speed(row, self._all(row, count, served)) for count in (fits, fits + 1))
            step = after / before if before > 0 else 0.0
            known = self._losses[key] = min(1.0, step if served else step * fits / (fits + 1))
        return known

    def _all(self, row: int, workers: int, served: bool) -> Counts:
        """This many workers, and as many servers where there are any; of other roles what was asked for."""
        roles = self.snapshot.jobs.shape_at(row).roles
        first = worker_role(roles)
        return tuple(
            workers if number == first or (served and not computes(role.name)) else role.replicas
            for number, role in enumerate(roles)
        )

    def _unit(self, row: int) -> tuple[float, float] | None:
        """What one replica holds of the kind that it has the largest share of, and what the cluster has of it. None
        where it must be asked size by size.
        """
        placement = self.snapshot.placements.get(row)
        if self.table(row) is None or (placement is not None and placement.requests is not None):
            return None
        number = self.snapshot.jobs.columns.shapes[row]
        return self.sizes.amount.item(number), self.sizes.whole.item(number)

    def _workers_per_node(self, row: int) -> int:
        """How many workers the largest empty node takes; 0 where they ask for nothing."""
        number = int(self.snapshot.jobs.shape[row])
        known = self._per_node.get(number)
        if known is None:
            shape, nodes = self.snapshot.jobs.shape_at(row), self.snapshot.nodes
            known = self._per_node[number] = nodes.per_node(shape.roles[worker_role(shape.roles)].asks)
        return known
