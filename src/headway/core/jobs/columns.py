"""Where the table keeps its jobs: plain rows that are written one by one, and numpy columns that follow behind.

A cluster changes a few jobs at a time, which plain objects do fastest. A policy looks at whole columns, which numpy
does fastest. So a cluster writes rows, a journal remembers which, and a column is brought up to date when it is asked
for. A column that was handed out is never written again: later values are written into a copy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Job
from headway.core.jobs.row import FIXED, MUTABLE, WRITE_ONCE, JobRow, Numbers
from headway.core.jobs.waiting import StateColumn
from headway.core.node import FloatArray

Column = npt.NDArray[Any]
RowValue = Callable[[JobRow, int], float]
"""What a policy computes from one row and its arrival number."""

FEW = 12
"""Up to this many rows are written one by one; more are written together."""
NUMBERED = frozenset({"user", "queue", "shape"})
"""Columns of numbers that a compaction may change."""
LONG = 4096
"""A journal longer than this, and longer than the table, is worked off."""


class JobColumns:
    __slots__ = (
        "_arrays",
        "_computed",
        "_done",
        "_lent",
        "_states",
        "_states_done",
        "by_submission",
        "jobs",
        "journal",
        "numbers",
        "rows",
        "serials",
        "shapes",
    )

    def __init__(self, numbers: Numbers) -> None:
        self.jobs: list[Job] = []
        self.rows: list[JobRow] = []
        self.shapes: list[int] = []
        self.serials: list[int] = []
        self.journal: list[int] = []
        """Numbers of the rows that were written, in order."""
        self.by_submission = True
        """Whether rows are in the order in which jobs were submitted. A job that was changed has a later row."""
        self.numbers = numbers
        self._arrays: dict[str, Column] = {}
        """The columns that were asked for so far."""
        self._done: dict[str, int] = {}
        """How much of the journal a column has; of a column that never changes, how many rows."""
        self._lent: set[str] = set()
        """Mutable columns of which a view was handed out."""
        self._states: StateColumn | None = None
        """The states, which every cycle asks for; made when first asked for."""
        self._states_done = 0
        """How much of the journal the states have."""
        self._computed: dict[Hashable, tuple[FloatArray, int]] = {}
        """Columns that are functions of the rows, with how much of the journal they have."""

    def append(self, job: Job, shape: int, serial: int, row: JobRow) -> None:
        self.journal.append(len(self.jobs))
        self.by_submission = self.by_submission and (not self.jobs or self.jobs[-1].submit <= job.submit)
        self.jobs.append(job)
        self.shapes.append(shape)
        self.serials.append(serial)
        self.rows.append(row)

    def fixed(self, name: str, row: int) -> Any:
        """One value of a column that never changes."""
        if name == "shape":
            return self.shapes[row]
        if name == "serial":
            return self.serials[row]
        return FIXED[name].of(self.jobs[row], self.numbers)

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
            return self.states().column()
        if len(self.journal) > LONG:
            self._work_off()
        return self._caught_up(name)

    def states(self) -> StateColumn:
        """The state of each job now, and which jobs wait."""
        if len(self.journal) > LONG:
            self._work_off()
        states, written = self._states, len(self.journal)
        if states is None:
            states = self._states = StateColumn(self.rows)
        elif self._states_done != written:
            states.follow(self.journal[self._states_done :], self.rows)
        self._states_done = written
        return states

    def _caught_up(self, name: str) -> Column:
        array, journal = self._arrays.get(name), self.journal
        if array is None:
            return self._first(name)
        done = self._done[name]
        if done == len(journal):
            return array
        if len(array) < len(self.rows):
            array = self._arrays[name] = _grown(array, len(self.rows))
        elif name in self._lent:
            array = self._arrays[name] = array.copy()
        self._lent.discard(name)
        rows = self.rows
        numbers = journal[done:] if done else journal
        if len(numbers) <= FEW:
            for number in numbers:
                array[number] = getattr(rows[number], name)
        else:
            numbers = list(set(numbers))
            array[numbers] = list(map(attrgetter(name), [rows[number] for number in numbers]))
        self._done[name] = len(journal)
        return array

    def _first(self, name: str) -> Column:
        """A column that is asked for the first time."""
        rows = self.rows
        array = self._arrays[name] = np.zeros(max(64, 2 * len(rows)), MUTABLE[name])
        array[: len(rows)] = list(map(attrgetter(name), rows))
        self._done[name] = len(self.journal)
        return array

    def _written_once(self, name: str) -> Column:
        array, done, count = self._arrays.get(name), self._done.get(name, 0), len(self.jobs)
        if array is None or len(array) < count:
            array = self._arrays[name] = _grown(np.zeros(0, WRITE_ONCE[name]) if array is None else array, count)
        if done < count:
            array[done:count] = [self.fixed(name, row) for row in range(done, count)]
            self._done[name] = count
        return array

    def computed(self, name: Hashable, value: RowValue) -> FloatArray:
        """A column that a function computes from each row; computed again only for rows that were written."""
        array, done = self._computed.get(name, (_NOTHING, -1))
        journal, count = self.journal, len(self.rows)
        if len(array) < count:
            array = _grown(array, count)
        if done < len(journal):
            rows, serials = self.rows, self.serials
            for number in range(count) if done < 0 else set(journal[done:]):
                array[number] = value(rows[number], serials[number])
        self._computed[name] = (array, len(journal))
        return array

    def _work_off(self) -> None:
        """Brings all columns up to date and begins an empty journal."""
        if len(self.journal) <= len(self.rows):
            return
        asked = [name for name in MUTABLE if name in self._arrays]
        for name in asked:
            self._caught_up(name)
        if self._states is not None:
            self._states.follow(self.journal[self._states_done :], self.rows)
        self.journal, self._states_done = [], 0
        for name in asked:
            self._done[name] = 0
        self._computed = {}

    def kept(self, rows: list[int], numbers: Numbers, shapes: list[int]) -> JobColumns:
        """Other columns with these rows alone, numbered anew; views of the present ones stay as they are."""
        other = JobColumns(numbers)
        for name in self._arrays.keys() - NUMBERED:
            column = self._caught_up(name) if name in MUTABLE else self._written_once(name)
            array = other._arrays[name] = np.zeros(max(64, 2 * len(rows)), column.dtype)
            array[: len(rows)] = column[rows]
            other._done[name] = 0 if name in MUTABLE else len(rows)
        other.jobs = [self.jobs[row] for row in rows]
        other.rows = [self.rows[row].copy() for row in rows]
        other.shapes = shapes
        other.serials = [self.serials[row] for row in rows]
        other.by_submission = self.by_submission
        return other


class Version:
    """The first `count` rows as they were at one moment.

    Shares the table's columns and rows. Of a row that the table writes later, the newest version keeps a copy; an older
    version finds its values by asking the newer ones. A column is made whole only when it is asked for.
    """

    __slots__ = ("columns", "count", "kept", "newer", "whole")

    columns: JobColumns
    """The table's own. When the table renumbers its rows it takes others and leaves these as they are."""
    count: int
    kept: dict[int, JobRow]
    """By number: the row as it was, where the table has written it since."""
    newer: Version | None
    whole: dict[str, Column]
    """Columns that were asked for, by name."""

    def column(self, name: str) -> Column:
        column = self.whole.get(name)
        if column is None:
            column = (
                self.columns.lend(name)[: self.count] if name in WRITE_ONCE or self.is_present else self._past(name)
            )
            column.flags.writeable = False
            self.whole[name] = column
        return column

    def read(self, row: int) -> JobRow:
        """The fields of one row that may change, for reading only."""
        version: Version | None = self
        while version is not None:
            kept = version.kept.get(row)
            if kept is not None:
                return kept
            version = version.newer
        return self.columns.rows[row]

    def value(self, row: int, name: str) -> Any:
        """One plain number, without making the whole column."""
        column = self.whole.get(name)
        if column is not None:
            return column.item(row)
        return getattr(self.read(row), name) if name in MUTABLE else self.columns.fixed(name, row)

    def values(self, row: int, names: Sequence[str]) -> list[Any]:
        """Several columns of one row, as plain numbers."""
        return [self.value(row, name) for name in names]

    def serial_of(self, row: int) -> int:
        return self.columns.serials[row]

    def row_of_serial(self, serial: int) -> int | None:
        """None where the job has left the table, or is not in it yet."""
        serials = self.columns.serials
        row = bisect_left(serials, serial, hi=self.count)
        return row if row < self.count and serials[row] == serial else None

    def computed(self, name: Hashable, value: RowValue) -> FloatArray:
        """What a function computes from each row and its arrival number. One name always means the same function.

        Use the column at once, before the table is written again: it is not copied.
        """
        if self.is_present:
            return self.columns.computed(name, value)[: self.count]
        return np.array([value(self.read(row), self.serial_of(row)) for row in range(self.count)], np.float64)

    @property
    def is_present(self) -> bool:
        """Whether none of its rows was written since."""
        return self.newer is None and not self.kept

    def _past(self, name: str) -> Column:
        """Goes back from the next newer version that has the whole column, or from the table."""
        passed: list[Version] = [self]
        version = self.newer
        while version is not None and name not in version.whole:
            passed.append(version)
            version = version.newer
        newer = self.columns.mutable(name) if version is None else version.whole[name]
        column: Column = newer[: self.count].copy()
        for older in reversed(passed):
            for row, kept in older.kept.items():
                if row < self.count:
                    column[row] = getattr(kept, name)
        return column


_NOTHING: FloatArray = np.zeros(0)


def _grown(array: Column, count: int) -> Column:
    larger = np.zeros(max(64, 2 * count), array.dtype)
    larger[: len(array)] = array
    return larger
