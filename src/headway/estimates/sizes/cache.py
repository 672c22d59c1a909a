"""Where running jobs stand among their sizes, as columns that are handed on from plan to plan.

Example: 1,000 jobs run, two of them have reported. Two lines are written anew. A line follows from a job's scaling and
placement alone; it is the same whether it was kept or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, count
from operator import is_not
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.flags import all_of
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.core.scaling import Scaling, SizeSpan
from headway.estimates.sizes.table import FURTHER, SizeTable

OWN_LINES = 7
FEWER = slice(4, 6)
"""The lines of speeds with fewer replicas."""
LINES = OWN_LINES + len(FURTHER)
NOT_HERE = (-1.0,) + (0.0,) * (LINES - 1)
"""The line of a job that is looked at one by one."""
Serials = npt.NDArray[np.int64]
ScalingsOf = Callable[[list[int]], list[Scaling]]
"""From places among the jobs to their scalings."""


class SizeLines(NamedTuple):
    """All aligned with the jobs."""

    serials: Serials
    scalings: list[Scaling | None]
    """None where the job is looked at one by one."""
    spans: list[SizeSpan | None]
    placements: list[Placement]
    tables: list[Any]
    """`SizeTable`; None where the job is looked at one by one."""
    numbers: FloatArray
    """(19, jobs), by line: 0 replicas (-1: looked at one by one), 1 speed, 2 highest speed of a larger size, 3 replicas
    that could go (all on the loneliest node), 4 and 5 speed without one and without all of them, 6 speed in the best
    place, 7 to 18 the same with each of `FURTHER` more (0 beyond the max).
    """


class SizeCache:
    """Lines of the jobs that were asked about last.

    `changed_too`: whether jobs that hold other amounts than they asked for have a line.
    """

    __slots__ = ("_changed_too", "_last")

    def __init__(self, *, changed_too: bool) -> None:
        self._changed_too = changed_too
        self._last = SizeLines(np.empty(0, np.int64), [], [], [], [], np.empty((LINES, 0)))

    def of(
        self, serials: Serials, spans: list[SizeSpan | None], placements: list[Placement], scalings_of: ScalingsOf,
        table_of: Callable[[Scaling, SizeSpan], SizeTable],
    ) -> SizeLines:  # fmt: skip
        """Lines of these jobs, each known by its arrival number; the numbers grow."""
        old = self._aligned(serials)
        moved = _differ((spans, old.spans), (placements, old.placements))
        scalings = self._scalings(old, moved, spans, placements, scalings_of)
        stale = sorted({*moved, *_differ((scalings, old.scalings))})
        tables, numbers = old.tables, old.numbers
        if stale:
            tables, fresh = tables.copy(), list[Sequence[float]]()
            for place in stale:
                scaling, span = scalings[place], spans[place]
                table = tables[place] = None if scaling is None or span is None else table_of(scaling, span)
                fresh.append(NOT_HERE if table is None else _line(table, placements[place]))
            numbers = numbers.copy()
            numbers[:, stale] = np.array(fresh, np.float64).T
        self._last = SizeLines(serials, scalings, spans, placements, tables, numbers)
        return self._last

    def _scalings(
        self, old: SizeLines, moved: list[int], spans: list[SizeSpan | None], placements: list[Placement],
        scalings_of: ScalingsOf,
    ) -> list[Scaling | None]:  # fmt: skip
        """The scalings of all jobs that have a line."""
        here: npt.NDArray[np.bool_] = old.numbers[0] >= 0.0
        here[moved] = [self._has_line(spans[place], placements[place]) for place in moved]
        if all_of(here):
            return list[Scaling | None](scalings_of(list(range(len(placements)))))
        scalings: list[Scaling | None] = [None] * len(placements)
        places = here.nonzero()[0].tolist()
        for place, scaling in zip(places, scalings_of(places), strict=True):
            scalings[place] = scaling
        return scalings

    def _has_line(self, span: SizeSpan | None, placement: Placement) -> bool:
        if span is None or len(placement.nodes[0]) > span.max:
            return False
        return self._changed_too or placement.requests is None

    def _aligned(self, serials: Serials) -> SizeLines:
        """What is known of these jobs; None, and any numbers, where a job was not asked about."""
        last, known = self._last, len(self._last.serials)
        if known == len(serials) and all_of(last.serials == serials):
            return last
        at = np.searchsorted(last.serials, serials)
        if known:
            at = np.where(last.serials[np.minimum(at, known - 1)] == serials, at, known)
        places = at.tolist()
        numbers: FloatArray = np.concatenate([last.numbers, np.zeros((LINES, 1))], axis=1)[:, places]
        taken = [[*column, None] for column in (last.scalings, last.spans, last.placements, last.tables)]
        scalings, spans, placements, tables = (list(map(column.__getitem__, places)) for column in taken)
        return SizeLines(serials, scalings, spans, placements, tables, numbers)


def _differ(*pairs: tuple[Iterable[Any], Iterable[Any]]) -> list[int]:
    """Places at which one of these lists has another object than before."""
    found: set[int] = set()
    for now, before in pairs:
        found.update(compress(count(), map(is_not, now, before)))
    return sorted(found)


def _line(table: SizeTable, placement: Placement) -> Sequence[float]:
    spots, many = placement.spots[0], len(placement.nodes[0])
    if not many:
        return (0.0,) * LINES
    nodes = len(spots)
    lonely = many if nodes == 1 else min(number for _, number in spots)
    spare, one_less, all_less = max(0, min(many - table.span.min, lonely)), 0.0, 0.0
    if spare:
        one_less = table.placed(many - 1, nodes - (lonely == 1))
        all_less = table.placed(many - spare, nodes - (spare == lonely))
    return (
        many, table.placed(many, nodes), table.fastest_above[many], spare, one_less, all_less, table.speeds[many],
        *table.with_more(many),
    )  # fmt: skip
