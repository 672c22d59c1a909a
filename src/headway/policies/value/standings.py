"""Where running jobs stand among their sizes, as columns that are handed on from plan to plan.

Example: 1,000 jobs run, two of them have reported. Two lines are written anew. A line follows from a job's scaling and
placement alone; it is the same whether it was kept or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.core.scaling import Scaling, SizeSpan

LINES = 9


class StandingLines(NamedTuple):
    """All aligned with the jobs."""

    serials: list[int]
    scalings: list[Scaling]
    spans: list[SizeSpan]
    placements: list[Placement]
    tables: list[Any]
    """`SizeTable`."""
    numbers: FloatArray
    """(9, jobs): replicas, speed, the highest speed of any larger size, the next larger size on the path (0: there is
    none), replicas that could go (all on the loneliest node, as far as the min allows), the speed without one of them
    and without all of them, and, in the best place, the speed now and at the next larger size.
    """


class Standings:
    """Lines of the jobs that were asked about last."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = StandingLines([], [], [], [], [], np.empty((LINES, 0)))

    def of(
        self, serials: list[int], scalings: list[Scaling], spans: list[SizeSpan], placements: list[Placement],
        table_of: Callable[[Scaling, SizeSpan], Any],
    ) -> StandingLines:  # fmt: skip
        """Lines of these jobs, each known by its arrival number."""
        old = self._aligned(serials)
        tables, numbers = old.tables, old.numbers
        pairs = zip(scalings, old.scalings, spans, old.spans, placements, old.placements, strict=True)
        stale = [
            place for place, (scaling, was, span, before, placement, there) in enumerate(pairs)
            if scaling is not was or span is not before or placement is not there
        ]  # fmt: skip
        for place in stale:
            tables[place] = table_of(scalings[place], spans[place])
        if stale:
            fresh = [_line(tables[place], placements[place]) for place in stale]
            numbers[:, stale] = np.array(fresh, np.float64).T
        self._last = StandingLines(serials, scalings, spans, placements, tables, numbers)
        return self._last

    def _aligned(self, serials: list[int]) -> StandingLines:
        """What is known of these jobs; None, and any numbers, where a job was not asked about."""
        last = self._last
        if last.serials == serials:
            return last._replace(tables=last.tables.copy(), numbers=last.numbers.copy())
        place_of = dict(zip(last.serials, range(len(last.serials)), strict=True))
        places = [place_of.get(serial, -1) for serial in serials]
        numbers: FloatArray = np.concatenate([last.numbers, np.zeros((LINES, 1))], axis=1)[:, places]
        taken = [[*column, None] for column in (last.scalings, last.spans, last.placements, last.tables)]
        scalings, spans, placements, tables = ([column[place] for place in places] for column in taken)
        return StandingLines(serials, scalings, spans, placements, tables, numbers)


def _line(table: Any, placement: Placement) -> Sequence[float]:
    spots, count = placement.spots[0], len(placement.nodes[0])
    if not count:
        return (0.0,) * LINES
    nodes, following = len(spots), table.following[count]
    lonely = count if nodes == 1 else min(number for _, number in spots)
    many, one_less, all_less = max(0, min(count - table.span.least, lonely)), 0.0, 0.0
    if many:
        one_less = table.placed(count - 1, nodes - (lonely == 1))
        all_less = table.placed(count - many, nodes - (many == lonely))
    return (
        count, table.placed(count, nodes), table.fastest_above[count], following, many, one_less, all_less,
        table.speeds[count], table.speeds[following] if following else 0.0,
    )  # fmt: skip
