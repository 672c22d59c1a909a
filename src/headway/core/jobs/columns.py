"""Where a table keeps its rows: plain records that are written one by one, and numpy columns that follow behind.

A cluster changes a few jobs at a time, which plain lists do fastest; a policy looks at whole columns, which numpy does
fastest. So rows are written as records, a journal remembers which, and a column is brought up to date when somebody
asks for it. A column that was handed out is never written again: what follows is written into a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Can, Job
from headway.core.jobs.waiting import Standing
from headway.core.node import FloatArray

WRITE_ONCE: dict[str, Any] = {
    "submit": np.float64, "shape": np.int32, "width": np.int32, "priority": np.int32,
    "user": np.int32, "queue": np.int32, "deadline": np.float64, "declared": np.float64,
    "can": np.uint8, "serial": np.int64,
}  # fmt: skip
MUTABLE: dict[str, Any] = {
    "state": np.uint8, "since": np.float64, "attained": np.float64, "service": np.float64,
    "size": np.int32, "touched": np.float64, "first_start": np.float64, "saved": np.float64, "stops": np.int32,
}  # fmt: skip
PLACE: dict[str, int] = {name: place for place, name in enumerate(MUTABLE)}
"""Where a record has each mutable column."""
STATE, SINCE, ATTAINED, SERVICE, SIZE, TOUCHED, FIRST_START, SAVED, STOPS = range(len(MUTABLE))
PLAIN: tuple[type[int | float], ...] = tuple(float if kind is np.float64 else int for kind in MUTABLE.values())
"""What a record holds in each place."""

Record = list[Any]
Column = npt.NDArray[Any]
Worked = Callable[[Record, int], float]
"""What a policy makes of one record and its arrival number."""

FEW = 12
"""So many rows are written one by one; more at once."""
LONG = 4096
"""A journal longer than this, and than the table, is worked off."""


class Columns:
    __slots__ = (
        "_arrays",
        "_done",
        "_lent",
        "_standing",
        "_stood",
        "_worked_out",
        "jobs",
        "journal",
        "numbers",
        "records",
        "serials",
        "shapes",
    )

    def __init__(self, numbers: tuple[dict[str, int], dict[str, int]]) -> None:
        self.jobs: list[Job] = []
        self.records: list[Record] = []
        self.shapes: list[int] = []
        self.serials: list[int] = []
        self.journal: list[int] = []
        """Rows that were written, in order."""
        self.numbers = numbers
        """Of users and of queues, by name."""
        self._arrays: dict[str, Column] = {}
        """Those that somebody has asked for."""
        self._done: dict[str, int] = {}
        """How much of the journal a column has; of those that are written once, how many rows."""
        self._lent: set[str] = set()
        """Mutable columns of which somebody has a view."""
        self._standing: Standing | None = None
        """The states, which everybody asks for in every cycle; made when first asked for."""
        self._stood = 0
        """How much of the journal it has."""
        self._worked_out: dict[Hashable, tuple[FloatArray, int]] = {}
        """Columns that are functions of the records, with how much of the journal they have."""

    def append(self, job: Job, shape: int, serial: int, record: Record) -> None:
        self.journal.append(len(self.jobs))
        self.jobs.append(job)
        self.shapes.append(shape)
        self.serials.append(serial)
        self.records.append(record)

    def once(self, name: str, row: int) -> Any:
        """One value of a column that never changes."""
        if name == "shape":
            return self.shapes[row]
        if name == "serial":
            return self.serials[row]
        return _ONCE[name](self.jobs[row], self.numbers)

    def lend(self, name: str) -> Column:
        """The column as it is now; it will never be written."""
        if name in MUTABLE:
            column = self.mutable(name)
            self._lent.add(name)
            return column
        return self._written_once(name)

    def mutable(self, name: str) -> Column:
        """The column as it is now; what is written later may appear in it."""
        if name == "state":
            return self.standing().column()
        if len(self.journal) > LONG:
            self._work_off()
        return self._caught_up(name)

    def standing(self) -> Standing:
        """Who is in which state now."""
        if len(self.journal) > LONG:
            self._work_off()
        standing, written = self._standing, len(self.journal)
        if standing is None:
            standing = self._standing = Standing(self.records)
        elif self._stood != written:
            standing.follow(self.journal[self._stood :], self.records)
        self._stood = written
        return standing

    def _caught_up(self, name: str) -> Column:
        array, journal = self._arrays.get(name), self.journal
        if array is None:
            return self._first(name)
        done = self._done[name]
        if done == len(journal):
            return array
        if len(array) < len(self.records):
            array = self._arrays[name] = _grown(array, len(self.records))
        elif name in self._lent:
            array = self._arrays[name] = array.copy()
        self._lent.discard(name)
        place, records = PLACE[name], self.records
        rows = journal[done:] if done else journal
        if len(rows) <= FEW:
            for row in rows:
                array[row] = records[row][place]
        else:
            rows = list(set(rows))
            array[rows] = [records[row][place] for row in rows]
        self._done[name] = len(journal)
        return array

    def _first(self, name: str) -> Column:
        """A column that nobody has asked for before."""
        place, records = PLACE[name], self.records
        array = self._arrays[name] = np.zeros(max(64, 2 * len(records)), MUTABLE[name])
        array[: len(records)] = [record[place] for record in records]
        self._done[name] = len(self.journal)
        return array

    def _written_once(self, name: str) -> Column:
        array, done, count = self._arrays.get(name), self._done.get(name, 0), len(self.jobs)
        if array is None or len(array) < count:
            array = self._arrays[name] = _grown(np.zeros(0, WRITE_ONCE[name]) if array is None else array, count)
        if done < count:
            array[done:count] = [self.once(name, row) for row in range(done, count)]
            self._done[name] = count
        return array

    def worked_out(self, name: Hashable, value: Worked) -> FloatArray:
        """A column of what a function makes of each record, worked out again only for rows that were written."""
        array, done = self._worked_out.get(name, (_NOTHING, -1))
        journal, count = self.journal, len(self.records)
        if len(array) < count:
            array = _grown(array, count)
        if done < len(journal):
            records, serials = self.records, self.serials
            for row in range(count) if done < 0 else set(journal[done:]):
                array[row] = value(records[row], serials[row])
        self._worked_out[name] = (array, len(journal))
        return array

    def _work_off(self) -> None:
        if len(self.journal) <= len(self.records):
            return
        asked = [name for name in MUTABLE if name in self._arrays]
        for name in asked:
            self._caught_up(name)
        if self._standing is not None:
            self._standing.follow(self.journal[self._stood :], self.records)
        self.journal, self._stood = [], 0
        for name in asked:
            self._done[name] = 0
        self._worked_out = {}

    def kept(self, rows: list[int]) -> Columns:
        """Another with these rows alone; whoever has this one keeps it as it is."""
        other = Columns(self.numbers)
        for name in self._arrays:
            column = self._caught_up(name) if name in MUTABLE else self._written_once(name)
            array = other._arrays[name] = np.zeros(max(64, 2 * len(rows)), column.dtype)
            array[: len(rows)] = column[rows]
            other._done[name] = 0 if name in MUTABLE else len(rows)
        other.jobs = [self.jobs[row] for row in rows]
        other.records = [self.records[row].copy() for row in rows]
        other.shapes = [self.shapes[row] for row in rows]
        other.serials = [self.serials[row] for row in rows]
        return other


_NOTHING: FloatArray = np.zeros(0)


def _grown(array: Column, count: int) -> Column:
    larger = np.zeros(max(64, 2 * count), array.dtype)
    larger[: len(array)] = array
    return larger


def _can(job: Job, _: object) -> int:
    """What may be done to it; without checkpoints it is neither moved nor stopped."""
    return int(job.can) if job.checkpoints else int(job.can) & ~int(Can.MOVE | Can.STOP)


_ONCE: dict[str, Callable[[Job, tuple[dict[str, int], dict[str, int]]], float]] = {
    "submit": lambda job, _: float(job.submit),
    "width": lambda job, _: job.replicas,
    "priority": lambda job, _: job.priority,
    "user": lambda job, numbers: numbers[0][job.user],
    "queue": lambda job, numbers: numbers[1][job.queue],
    "deadline": lambda job, _: np.inf if job.deadline is None else float(job.deadline),
    "declared": lambda job, _: np.nan if job.seconds is None else float(job.seconds),
    "can": _can,
}
