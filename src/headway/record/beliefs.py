"""Beliefs in the log: what a policy was told of each job, written again only where it changed.

A book that learns from other jobs changes its mind about jobs of which nothing was heard, so what is written is found
by comparison. Numbers are kept as they are; what is no number is null.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.estimates import Beliefs
from headway.core.node import FloatArray

COLUMNS = 7
UNTOLD = (math.nan, 0.0, 0.0, math.nan, 0.0, math.nan, 0.0)
_CODES = (4, 6)
"""Columns that hold whole numbers."""


def packed(beliefs: Beliefs) -> FloatArray:
    """(rows, 7): left, as of, burning, spread, growth, since when, basis."""
    columns = (
        beliefs.left, beliefs.at, beliefs.burning, beliefs.spread, beliefs.growth, beliefs.growth_since, beliefs.basis,
    )  # fmt: skip
    table: FloatArray = np.empty((len(beliefs.left), COLUMNS))
    for number, column in enumerate(columns):
        table[:, number] = UNTOLD[number] if column is None else column
    table[~np.isfinite(table)] = np.nan
    return table


def unpacked(table: FloatArray, *, rich: bool) -> Beliefs:
    times = (table[:, 0], table[:, 1], table[:, 2] > 0)
    if not rich:
        return Beliefs(*times)
    return Beliefs(*times, table[:, 3], table[:, 4].astype(np.uint8), table[:, 5], table[:, 6].astype(np.uint8))


class Told:
    """What the log says so far, by arrival number."""

    def __init__(self) -> None:
        self._table: FloatArray = np.empty((0, COLUMNS))

    def fresh(self, serials: npt.NDArray[np.int64], beliefs: Beliefs) -> list[list[Any]]:
        """Serial and columns of every job of which the log does not say the same already."""
        if not len(serials):
            return []
        self._make_room(int(serials[-1]) + 1)
        now, told = packed(beliefs), self._table[serials]
        differs = ((now != told) & ~(np.isnan(now) & np.isnan(told))).any(axis=1)
        rows = np.flatnonzero(differs)
        self._table[serials[rows]] = now[rows]
        return [[int(serials[row]), *_plain(now[row])] for row in rows]

    def _make_room(self, count: int) -> None:
        if count > len(self._table):
            more = np.empty((max(64, 2 * count) - len(self._table), COLUMNS))
            more[:] = UNTOLD
            self._table = np.concatenate([self._table, more])


def _plain(row: FloatArray) -> list[Any]:
    values: list[Any] = [None if math.isnan(value) else value for value in row.tolist()]
    values[2] = bool(values[2])
    for place in _CODES:
        values[place] = int(values[place])
    return values
