"""What a snapshot sees of the jobs: read-only columns over the table that a cluster writes.

A view shares the table's columns and records. Of rows that the table writes afterwards, the view is left what they
were; a column is made whole only when somebody looks at it. A snapshot therefore costs what changed and what was asked
of it, not what exists. All this is decided by what was handed out, never by counting references.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Job
from headway.core.jobs.columns import PLACE, Record, Worked
from headway.core.jobs.waiting import over, training, waiting
from headway.core.node import BoolArray, FloatArray, IntArray
from headway.core.shape import Shape
from headway.core.states import OVER, STATES, State

if TYPE_CHECKING:
    from headway.core.jobs.table import Table

_RUNNING = int(State.RUNNING)
_WAITING_ROWS, _RUNNING_ROWS = "waiting rows", "running rows"


class Jobs:
    """A read-only view of the first `count` rows. Columns are made on demand; asking twice costs nothing."""

    __slots__ = (
        "_columns", "all_can_stop", "any_elastic", "count", "jobs", "kept", "last_touched", "newer", "queues",
        "row_of", "shapes", "users", "views",
    )  # fmt: skip

    def __init__(self, table: Table) -> None:
        columns = table.columns
        self._columns = columns
        """The table's own; a table that renumbers its rows takes others and leaves these as they are."""
        self.kept: dict[int, Record] = {}
        """By row: the record as it was in this view, where the table has written since."""
        self.newer: Jobs | None = None
        self.views: dict[str, npt.NDArray[Any]] = {}
        self.count = table.count
        self.jobs = columns.jobs
        self.row_of = table.row_of
        self.shapes = table.shapes
        self.users = table.users
        self.queues = table.queues
        self.all_can_stop = table.all_can_stop
        """Whether no job forbids being stopped; where it is not known, False."""
        self.any_elastic = table.any_elastic
        """Whether any shape so far may have more than one size."""
        self.last_touched = table.last_touched
        """When the last decision about any of them was begun."""

    def column(self, name: str) -> npt.NDArray[Any]:
        view = self.views.get(name)
        if view is None:
            if name not in PLACE or self._latest():
                view = self._columns.lend(name)[: self.count]
            else:
                view = self._as_it_was(name)
            view.flags.writeable = False
            self.views[name] = view
        return view

    def record(self, row: int) -> Record:
        """All mutable columns of one row, for reading, in the order of `MUTABLE`."""
        view: Jobs | None = self
        while view is not None:
            record = view.kept.get(row)
            if record is not None:
                return record
            view = view.newer
        return self._columns.records[row]

    def value(self, row: int, name: str) -> Any:
        """One plain number, without making a view of the whole column."""
        view = self.views.get(name)
        if view is not None:
            return view.item(row)
        place = PLACE.get(name)
        return self._columns.once(name, row) if place is None else self.record(row)[place]

    def values(self, row: int, names: Sequence[str]) -> list[Any]:
        """Several columns of one row, as plain numbers."""
        return [self.value(row, name) for name in names]

    def serial_of(self, row: int) -> int:
        return self._columns.serials[row]

    def row_of_serial(self, serial: int) -> int | None:
        """None where the job has left the table, or has not come yet."""
        serials = self._columns.serials
        row = bisect_left(serials, serial, hi=self.count)
        return row if row < self.count and serials[row] == serial else None

    def worked_out(self, name: Hashable, value: Worked) -> FloatArray:
        """What a function makes of each row's record and arrival number; under one name always the same function.

        A copy would be dear and is not needed: it is to be used at once, before the table is written again.
        """
        if self._latest():
            return self._columns.worked_out(name, value)[: self.count]
        return np.array([value(self.record(row), self.serial_of(row)) for row in range(self.count)], np.float64)

    def _latest(self) -> bool:
        """Whether none of its rows was written since."""
        return self.newer is None and not self.kept

    def _as_it_was(self, name: str) -> npt.NDArray[Any]:
        """Goes back from the next newer view that has the column whole, or from the table."""
        passed: list[Jobs] = [self]
        view = self.newer
        while view is not None and name not in view.views:
            passed.append(view)
            view = view.newer
        whole = self._columns.mutable(name) if view is None else view.views[name]
        column: npt.NDArray[Any] = whole[: self.count].copy()
        place = PLACE[name]
        for older in reversed(passed):
            for row, record in older.kept.items():
                if row < self.count:
                    column[row] = record[place]
        return column

    def with_state(self, state: npt.NDArray[np.uint8]) -> Jobs:
        """The same jobs, in which some are in other states: for trying what would be."""
        other = copy.copy(self)
        other.views = {name: view for name, view in self.views.items() if name not in (_WAITING_ROWS, _RUNNING_ROWS)}
        other.views["state"] = state
        return other

    @property
    def submit(self) -> FloatArray:
        return self.column("submit")

    @property
    def shape(self) -> IntArray:
        """Index into `shapes`."""
        return self.column("shape")

    @property
    def width(self) -> IntArray:
        """Replicas asked for, over all roles."""
        return self.column("width")

    @property
    def priority(self) -> IntArray:
        return self.column("priority")

    @property
    def user(self) -> IntArray:
        """Index into `users`."""
        return self.column("user")

    @property
    def queue(self) -> IntArray:
        """Index into `queues`."""
        return self.column("queue")

    @property
    def deadline(self) -> FloatArray:
        """Infinite where the job has none."""
        return self.column("deadline")

    @property
    def declared(self) -> FloatArray:
        """Seconds of training that the user declared; not a number where there are none."""
        return self.column("declared")

    @property
    def can(self) -> npt.NDArray[np.uint8]:
        return self.column("can")

    @property
    def serial(self) -> npt.NDArray[np.int64]:
        """Arrival number: unlike the row it never changes."""
        return self.column("serial")

    @property
    def state(self) -> npt.NDArray[np.uint8]:
        return self.column("state")

    @property
    def since(self) -> FloatArray:
        """When the job entered its state."""
        return self.column("since")

    @property
    def attained(self) -> FloatArray:
        """Seconds trained up to `since`."""
        return self.column("attained")

    @property
    def service(self) -> FloatArray:
        """Replica-seconds trained up to `since`."""
        return self.column("service")

    @property
    def size(self) -> IntArray:
        """Replicas that it holds now; 0 while it waits."""
        return self.column("size")

    @property
    def touched(self) -> FloatArray:
        """When the last decision about it was begun; minus infinity before the first."""
        return self.column("touched")

    @property
    def first_start(self) -> FloatArray:
        """When it was first up; not a number before."""
        return self.column("first_start")

    @property
    def saved(self) -> FloatArray:
        """Seconds trained at its last acknowledged checkpoint."""
        return self.column("saved")

    @property
    def stops(self) -> IntArray:
        """How often it was stopped, moved or interrupted after having been up."""
        return self.column("stops")

    def waiting(self) -> npt.NDArray[np.intp]:
        """Rows of waiting jobs, in arrival order."""
        rows = self.views.get(_WAITING_ROWS)
        if rows is None:
            columns = self._columns
            if self._latest() and self.count == len(columns.jobs) and "state" not in self.views:
                rows = columns.standing().waiting()
            else:
                rows = waiting(self.column("state"))
                rows.flags.writeable = False
            self.views[_WAITING_ROWS] = rows
        return rows

    def training(self) -> BoolArray:
        return training(self.column("state"))

    def over(self) -> BoolArray:
        """By row: whether the job is finished, failed or cancelled."""
        return over(self.column("state"))

    def is_over(self, row: int) -> bool:
        return STATES[self.value(row, "state")] in OVER

    def running(self) -> npt.NDArray[np.intp]:
        """Rows of jobs that train and are not in flight: the ones a policy may touch."""
        rows = self.views.get(_RUNNING_ROWS)
        if rows is None:
            rows = self.views[_RUNNING_ROWS] = (self.column("state") == _RUNNING).nonzero()[0]
            rows.flags.writeable = False
        return rows

    def trained_seconds(self, now: float) -> FloatArray:
        seconds: FloatArray = self.attained + np.where(self.training(), now - self.since, 0.0)
        return seconds

    def job(self, row: int) -> Job:
        return self.jobs[row]

    def state_of(self, row: int) -> State:
        state: State = STATES[self.value(row, "state")]
        return state

    def shape_at(self, row: int) -> Shape:
        return self.shapes[self._columns.shapes[row]]
