"""Keeps the sizes of the jobs of a run from cycle to cycle, so that asking costs what changed.

Example: 1,000 jobs run, two of them have reported. Two lines are made anew. A book has one `SizesHolder` and hands it
on with its estimates; what it answers follows from shapes, scalings and placements, and is the same from a new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from headway.core.jobs.shapes import Shapes
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.core.placement import Shape
from headway.core.scaling import Scaling, SizeSpan
from headway.core.snapshot import Snapshot
from headway.estimates.sizes.cache import SizeCache, SizeLines
from headway.estimates.sizes.table import SizeTable

Rows = npt.NDArray[np.intp]
LARGEST = 1024
"""A job that may have more replicas than this has no table: its sizes are looked at one by one."""


class SizesHolder:
    """Written by nobody else: asking it is all that others do."""

    def __init__(self) -> None:
        self._tables: WeakKeyDictionary[Scaling, dict[SizeSpan, SizeTable]] = WeakKeyDictionary()
        self._shapes: tuple[Shapes, Nodes, ShapeSizes] | None = None
        self._standings = SizeCache(changed_too=False), SizeCache(changed_too=True)

    def shapes(self, snapshot: Snapshot) -> ShapeSizes:
        """By shape."""
        shapes, nodes, known = snapshot.jobs.shapes, snapshot.nodes, self._shapes
        if known is None or known[0] is not shapes or known[1] is not nodes:
            known = self._shapes = shapes, nodes, ShapeSizes.of(shapes, nodes)
        return known[2]

    def table(self, scaling: Scaling, span: SizeSpan) -> SizeTable:
        tables = self._tables.get(scaling)
        if tables is None:
            tables = self._tables[scaling] = {}
        found = tables.get(span)
        if found is None:
            found = tables[span] = SizeTable(scaling, span)
        return found

    def standings(self, snapshot: Snapshot, rows: Rows, *, changed_too: bool) -> SizeLines:
        """Where these running jobs stand among their sizes. `changed_too`: also those that hold other amounts than they
        asked for.
        """
        sizes, numbers = self.shapes(snapshot), rows.tolist()
        spans: list[Any] = list(map(sizes.spans.__getitem__, snapshot.jobs.shape[rows].tolist()))
        placements = list(map(snapshot.placements.__getitem__, numbers))

        def scalings_of(places: list[int]) -> list[Scaling]:
            if len(places) == len(numbers):
                return snapshot.estimates.scalings(numbers, spans)
            return snapshot.estimates.scalings([numbers[place] for place in places], [spans[place] for place in places])

        held = self._standings[changed_too]
        return held.of(snapshot.jobs.serial[rows], spans, placements, scalings_of, self.table)


def holder_of(snapshot: Snapshot) -> SizesHolder:
    """That of the book which made the estimates."""
    held = snapshot.estimates.sizes
    return held if isinstance(held, SizesHolder) else SizesHolder()


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

    @classmethod
    def of(cls, shapes: Shapes, nodes: Nodes) -> ShapeSizes:
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
        )


def _span(shape: Shape, nodes: Nodes) -> SizeSpan | None:
    if len(shape.roles) != 1 or not shape.elastic or shape.missing or not shape.roles[0].asks:
        return None
    role = shape.roles[0]
    most = max(role.min, min(role.max, nodes.slots(role.asks, role.constraint)))
    if most > LARGEST:
        return None
    return SizeSpan(role.min, most, nodes.per_node(role.asks))


def _unit(shape: Shape, whole: FloatArray) -> tuple[float, float]:
    """Amount and whole of the kind of which one replica has the largest share."""
    shares = [(amount / whole[kind] if whole[kind] > 0 else math.inf, kind) for kind, amount in shape.roles[0].asks]
    share, kind = max(shares, key=lambda one: one[0])
    return (float(shape.roles[0].vector[kind]), float(whole[kind])) if math.isfinite(share) else (1e6, 1.0)
