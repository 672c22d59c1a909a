"""Sizes of a job of one role as a table: what follows from how it scales, computed once while that is believed.

Most jobs have one role. Their sizes are plain numbers, and a book of estimates tells the speeds of all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headway.core.jobs.shapes import Shapes
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.core.placement import Shape
from headway.core.scaling import Scaling, SizeSpan
from headway.core.snapshot import Snapshot
from headway.policies.value.standings import Standings

FURTHER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of further replicas that are tried: the first beyond a node may cost speed that the fourth brings back."""
LONGEST_PATH = 48
LARGEST = 1024
"""A job that may have more replicas than this has no table: its sizes are looked at one by one."""
FASTER = 1.0 + 1e-6
SAME = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class SizeTable:
    """All by number of replicas, from none to the most."""

    span: SizeSpan
    speeds: tuple[float, ...]
    """In the best place, relative to the requested size; 0 where the estimate is no usable number."""
    apart: float
    """The factor where replicas that fit on one node are on several."""
    path: tuple[int, ...]
    """Sizes from the min on, each faster than all before it."""
    following: tuple[int, ...]
    """The next larger size on the path; 0 where there is none."""
    fastest_above: tuple[float, ...]
    """The highest speed of any larger size."""
    steps: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Speeds with each of `FURTHER` more; 0 where that is beyond the most. Filled as it is asked for."""

    @classmethod
    def of(cls, scaling: Scaling, span: SizeSpan) -> SizeTable:
        """Made once for a scaling, and kept with it."""
        known: SizeTable | None = scaling.memo.get(span)
        if known is None:
            known = scaling.memo[span] = cls._made(scaling, span)
        return known

    @classmethod
    def _made(cls, scaling: Scaling, span: SizeSpan) -> SizeTable:
        speeds = tuple(usable(speed) for speed in scaling.speeds[: span.most + 1])
        path = path_of(speeds, span.least)
        following, above = [0] * (span.most + 1), [0.0] * (span.most + 1)
        larger, fastest = 0, 0.0
        on_path = frozenset(path)
        for count in range(span.most, -1, -1):
            following[count], above[count] = larger, fastest
            larger = count if count in on_path else larger
            fastest = max(fastest, speeds[count])
        apart = scaling.apart if 0.0 < scaling.apart <= 1.0 else 1.0
        return cls(span, speeds, apart, path, tuple(following), tuple(above))

    def with_more(self, count: int) -> tuple[float, ...]:
        """Speeds in the best place with each of `FURTHER` more replicas; 0 where that is beyond the most."""
        known = self.steps.get(count)
        if known is None:
            speeds, most = self.speeds, self.span.most
            known = tuple(speeds[count + more] if count + more <= most else 0.0 for more in FURTHER)
            self.steps[count] = known
        return known

    def placed(self, count: int, nodes: int) -> float:
        """The speed of this many replicas on this many nodes."""
        speed = self.speeds[count]
        return speed * self.apart if nodes > 1 and count <= self.span.per_node else speed


def table_of(snapshot: Snapshot, row: int) -> SizeTable | None:
    """The sizes of a job as a table; None where it has none."""
    span = ShapeSizes.of(snapshot.jobs.shapes, snapshot.nodes).spans[snapshot.jobs.columns.shapes[row]]
    placement = snapshot.placements.get(row)
    if span is None or not snapshot.estimates.known:
        return None
    if placement is not None and len(placement.nodes[0]) > span.most:
        return None
    return SizeTable.of(snapshot.estimates.scaling(row, span), span)


def usable(speed: float) -> float:
    return speed if math.isfinite(speed) and speed > 0 else 0.0


def path_of(speeds: Sequence[float], least: int) -> tuple[int, ...]:
    """Sizes from the min on, each faster than all before it: always the one that gains most per replica."""
    path, most = [least], len(speeds) - 1
    while len(path) < LONGEST_PATH:
        now, speed = path[-1], speeds[path[-1]]
        sizes = [now + more for more in FURTHER if now + more <= most]
        gains = [((speeds[size] - speed) / (size - now), size) for size in sizes if speeds[size] > speed * FASTER]
        if not gains:
            break
        enough = max(gains)[0] * SAME
        path.append(next(size for gain, size in gains if gain >= enough))
    return tuple(path)


@dataclass(frozen=True, slots=True, eq=False)
class ShapeSizes:
    """By shape: which have a table of sizes, and the share of the cluster that one replica holds."""

    spans: tuple[SizeSpan | None, ...]
    """None where sizes are looked at one by one."""
    tabled: BoolArray
    elastic: BoolArray
    amount: FloatArray
    """What one replica asks for of the kind that it has the largest share of."""
    whole: FloatArray
    """What the cluster has of that kind."""
    share: FloatArray
    """Share at the requested size."""
    standings: Standings
    """Where running jobs stand among their sizes."""
    resized: Standings
    """The same of those whose size is not the requested one."""

    @classmethod
    def of(cls, shapes: Shapes, nodes: Nodes) -> ShapeSizes:
        """Made once for the shapes of a cluster, and kept with them."""
        known: ShapeSizes | None = shapes.memo.get(cls)
        if known is None:
            known = shapes.memo[cls] = cls._made(shapes, nodes)
        return known

    @classmethod
    def _made(cls, shapes: Shapes, nodes: Nodes) -> ShapeSizes:
        spans = tuple(_span(shape, nodes) for shape in shapes)
        whole = nodes.total()
        units = [(0.0, 1.0) if span is None else _unit(shape, whole) for shape, span in zip(shapes, spans, strict=True)]
        amount, of = np.array([unit[0] for unit in units]), np.array([unit[1] for unit in units])
        asked = np.array([shape.counts[0] for shape in shapes], np.float64)
        share = np.clip(amount * asked / of, 1e-9, 1e6)
        tabled = np.array([span is not None for span in spans], np.bool_)
        return cls(
            spans,
            tabled,
            np.array([shape.elastic for shape in shapes], np.bool_),
            amount,
            of,
            share,
            Standings(),
            Standings(),
        )


def _span(shape: Shape, nodes: Nodes) -> SizeSpan | None:
    if len(shape.roles) != 1 or not shape.elastic or shape.missing or not shape.roles[0].asks:
        return None
    role = shape.roles[0]
    most = max(role.least, min(role.most, nodes.slots(role.asks, role.constraint)))
    if most > LARGEST:
        return None
    return SizeSpan(role.least, most, max(1, min(nodes.largest(kind) // n for kind, n in role.asks)))


def _unit(shape: Shape, whole: FloatArray) -> tuple[float, float]:
    """Amount and whole of the kind of which one replica has the largest share."""
    shares = [(amount / whole[kind] if whole[kind] > 0 else math.inf, kind) for kind, amount in shape.roles[0].asks]
    share, kind = max(shares, key=lambda one: one[0])
    return (float(shape.roles[0].vector[kind]), float(whole[kind])) if math.isfinite(share) else (1e6, 1.0)
