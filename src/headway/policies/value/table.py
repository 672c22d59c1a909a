"""Sizes of a job of one role as a table: what follows from how it scales, computed once while that is believed.

Most jobs have one role. Their sizes are plain numbers, and a book of estimates tells the speeds of all of them at once.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from headway.core.jobs.shapes import Shapes
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.core.placement import Shape
from headway.core.scaling import Scaling, SizeSpan
from headway.core.snapshot import Snapshot
from headway.policies.value.standings import FURTHER, Standings

LONGEST_PATH = 48
LARGEST = 1024
"""A job that may have more replicas than this has no table: its sizes are looked at one by one."""
FASTER = 1.0 + 1e-6
SAME = 1.0 - 1e-6
_BEYOND = (0.0,) * FURTHER[-1]


class SizeTable:
    """All by number of replicas, from none to the most."""

    __slots__ = ("_columns", "_padded", "_path", "apart", "fastest_above", "span", "speeds")

    def __init__(self, scaling: Scaling, span: SizeSpan) -> None:
        self.span = span
        speeds = scaling.speeds[: span.most + 1]
        if not (math.isfinite(sum(speeds)) and min(speeds) >= 0.0):
            speeds = tuple(map(usable, speeds))
        self.speeds = speeds
        """In the best place, relative to the requested size; 0 where the estimate is no usable number."""
        self.apart = scaling.apart if 0.0 < scaling.apart <= 1.0 else 1.0
        """The factor where replicas that fit on one node are on several."""
        self.fastest_above = tuple(accumulate(reversed(speeds), max, initial=0.0))[-2::-1]
        """The highest speed of any larger size."""
        self._padded = speeds + _BEYOND
        self._path: tuple[int, ...] | None = None
        self._columns: tuple[npt.NDArray[np.int64], FloatArray] | None = None

    @classmethod
    def of(cls, scaling: Scaling, span: SizeSpan) -> SizeTable:
        """Made once for a scaling, and kept with it."""
        known: SizeTable | None = scaling.memo.get(span)
        if known is None:
            known = scaling.memo[span] = cls(scaling, span)
        return known

    @property
    def path(self) -> tuple[int, ...]:
        """Sizes from the min on, each faster than all before it. Computed when it is first asked for."""
        if self._path is None:
            self._path = path_of(self.speeds, self.span.least)
        return self._path

    @property
    def path_columns(self) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """The sizes on the path and their speeds, as columns."""
        if self._columns is None:
            path = self.path
            self._columns = np.array(path, np.int64), np.array([self.speeds[count] for count in path], np.float64)
        return self._columns

    def following(self, count: int) -> int:
        """The next larger size on the path; 0 where there is none."""
        path = self.path
        place = bisect_right(path, count)
        return path[place] if place < len(path) else 0

    def with_more(self, count: int) -> list[float]:
        """Speeds in the best place with each of `FURTHER` more replicas; 0 where that is beyond the most."""
        padded = self._padded
        return [padded[count + more] for more in FURTHER]

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
    now, more, size = np.array(speeds), np.array(FURTHER), np.arange(len(speeds))
    then: FloatArray = np.concatenate((now, _BEYOND))[size[:, None] + more]
    gains: FloatArray = np.where(then > now[:, None] * FASTER, (then - now[:, None]) / more, 0.0)
    best: FloatArray = gains.max(axis=1)
    option = (gains >= best[:, None] * SAME).argmax(axis=1)
    following = np.where(best > 0.0, size + more[option], 0).tolist()
    path = [least]
    while len(path) < LONGEST_PATH and following[path[-1]]:
        path.append(following[path[-1]])
    return tuple(path)


@dataclass(frozen=True, slots=True, eq=False)
class ShapeSizes:
    """By shape: which have a table of sizes, and the share of the cluster that one replica holds."""

    spans: tuple[SizeSpan | None, ...]
    """None where sizes are looked at one by one."""
    tabled: BoolArray
    all_tabled: bool
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
            bool(tabled.all()),
            np.array([shape.elastic for shape in shapes], np.bool_),
            amount,
            of,
            share,
            Standings(changed_too=False),
            Standings(changed_too=True),
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
