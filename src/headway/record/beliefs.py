"""What a log says of estimates: a job's beliefs are written when they change.

A book that learns from other jobs changes its mind about jobs that reported nothing. So the log finds by comparison
what it has to write. Numbers are kept as they are; NaN is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from headway.core.estimates import Beliefs
from headway.core.node import BoolArray, FloatArray

COLUMNS = 7
UNTOLD = (math.nan, 0.0, 0.0, math.nan, 0.0, math.nan, 0.0)
_UNTOLD_COLUMN: FloatArray = np.array(UNTOLD)[:, None]


def packed(beliefs: Beliefs) -> FloatArray:
    """(7, rows): left, as of, burning, spread, growth, since when, basis. Equal numbers have equal bits."""
    table: FloatArray = np.empty((COLUMNS, len(beliefs.left)))
    columns = (
        beliefs.left, beliefs.at, beliefs.burning, beliefs.spread, beliefs.growth, beliefs.growth_since, beliefs.basis,
    )  # fmt: skip
    for number, column in enumerate(columns):
        table[number] = UNTOLD[number] if column is None else column
    table[~np.isfinite(table)] = np.nan
    table += 0.0  # of both zeros, the one without a sign
    return table


def unpacked(table: FloatArray, *, rich: bool) -> Beliefs:
    times = (table[:, 0], table[:, 1], table[:, 2] > 0)
    if not rich:
        return Beliefs(*times)
    return Beliefs(*times, table[:, 3], table[:, 4].astype(np.uint8), table[:, 5], table[:, 6].astype(np.uint8))


class ToldBeliefs(msgspec.Struct, array_like=True, gc=False):
    """One job's beliefs, written as a list is.

    The garbage collector does not follow it: a cycle among 10,000 jobs writes thousands, and lists of them would make
    the collector look at all other objects again and again.
    """

    serial: int
    left: float | None
    at: float | None
    burning: bool
    spread: float | None
    growth: int
    since: float | None
    basis: int

    def __iter__(self) -> Iterator[float | int | bool | None]:
        return iter(msgspec.structs.astuple(self))


class WrittenBeliefs:
    """The beliefs that the log has so far, by arrival number."""

    def __init__(self) -> None:
        self._serials: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._table: FloatArray = np.empty((COLUMNS, 0))

    def fresh(self, serials: npt.NDArray[np.int64], beliefs: Beliefs) -> list[ToldBeliefs]:
        """Serial and columns of every job whose beliefs differ from those in the log. `serials` grow."""
        now, told = packed(beliefs), self._told(serials)
        differs: BoolArray = np.logical_or.reduce(now.view(np.int64) != told.view(np.int64))
        rows = differs.nonzero()[0]
        self._serials, self._table = serials, now
        return list(map(ToldBeliefs, serials[rows].tolist(), *_plain(now[:, rows])))

    def _told(self, serials: npt.NDArray[np.int64]) -> FloatArray:
        """What the log has of these jobs. Jobs that are in the table no more are forgotten."""
        count = len(self._serials)
        if count == len(serials) and (not count or serials[-1] == self._serials[-1]):
            return self._table
        told: FloatArray = np.empty((COLUMNS, len(serials)))
        told[:] = _UNTOLD_COLUMN
        if count:
            places = np.minimum(np.searchsorted(self._serials, serials), count - 1)
            known = (self._serials[places] == serials).nonzero()[0]
            told[:, known] = self._table[:, places[known]]
        return told


def _plain(table: FloatArray) -> list[list[Any]]:
    """The columns as lists of plain values."""
    left, at, burning, spread, growth, since, basis = table.tolist()
    return [
        _or_null(left), _or_null(at), [value != 0.0 for value in burning], _or_null(spread), list(map(int, growth)),
        _or_null(since), list(map(int, basis)),
    ]  # fmt: skip


def _or_null(column: list[float]) -> list[float | None]:
    return [None if value != value else value for value in column]  # noqa: PLR0124  NaN alone differs from itself
