"""What a log says of estimates: a job's beliefs are written when they change.

A book that learns from other jobs changes its mind about jobs that reported nothing. So the log finds by comparison
what it has to write. Numbers are kept as they are; NaN is null.
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
_BURNING = 2
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


class WrittenBeliefs:
    """The beliefs that the log has so far, by arrival number."""

    def __init__(self) -> None:
        self._serials: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._table: FloatArray = np.empty((0, COLUMNS))

    def fresh(self, serials: npt.NDArray[np.int64], beliefs: Beliefs) -> list[list[Any]]:
        """Serial and columns of every job whose beliefs differ from those in the log. `serials` grow."""
        now, told = packed(beliefs), self._told(serials)
        differs = ((now != told) & ~(np.isnan(now) & np.isnan(told))).any(axis=1)
        rows = np.flatnonzero(differs)
        self._serials, self._table = serials, now
        return list(map(list, zip(serials[rows].tolist(), *_plain(now[rows]), strict=True)))

    def _told(self, serials: npt.NDArray[np.int64]) -> FloatArray:
        """What the log has of these jobs. Jobs that are in the table no more are forgotten."""
        count = len(self._serials)
        if count == len(serials) and (not count or serials[-1] == self._serials[-1]):
            return self._table
        told: FloatArray = np.empty((len(serials), COLUMNS))
        told[:] = UNTOLD
        if count:
            places = np.minimum(np.searchsorted(self._serials, serials), count - 1)
            known = self._serials[places] == serials
            told[known] = self._table[places[known]]
        return told


def _plain(table: FloatArray) -> list[list[Any]]:
    """The columns as lists of plain values."""
    columns: list[list[Any]] = []
    for number in range(COLUMNS):
        column = table[:, number]
        if number in _CODES:
            columns.append(column.astype(np.int64).tolist())
        elif number == _BURNING:
            columns.append((column != 0.0).tolist())
        elif np.isnan(column).any():
            columns.append([None if math.isnan(value) else value for value in column.tolist()])
        else:
            columns.append(column.tolist())
    return columns
