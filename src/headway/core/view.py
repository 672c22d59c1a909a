"""What a snapshot sees of the jobs: read-only columns over the table that a cluster writes.

Columns that never change after arrival are shared by all snapshots; those that do are shared as well until somebody
looks: a column that was looked at is copied on the next write, and of one that was not only the values that were
written over are kept. A snapshot therefore costs what changed and what was asked of it, not what exists. All this is
decided by what was handed out, never by counting references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Job
from headway.core.node import BoolArray, FloatArray, IntArray
from headway.core.shape import Shape
from headway.core.states import STATES, State

if TYPE_CHECKING:
    from headway.core.table import Table

WRITE_ONCE: dict[str, Any] = {
    "submit": np.float64, "shape": np.int32, "width": np.int32, "priority": np.int32,
    "user": np.int32, "queue": np.int32, "deadline": np.float64, "declared": np.float64,
    "can": np.uint8, "serial": np.int64,
}  # fmt: skip
MUTABLE: dict[str, Any] = {
    "state": np.uint8, "since": np.float64, "attained": np.float64, "service": np.float64,
    "size": np.int32, "touched": np.float64, "first_start": np.float64, "saved": np.float64, "stops": np.int32,
}  # fmt: skip
_WAITING = int(State.WAITING)
_TRAINING = (int(State.RUNNING), int(State.SCALING), int(State.RESIZING))


class Jobs:
    """A read-only view of the first `count` rows. Columns are made on demand; asking twice costs nothing."""

    __slots__ = (
        "_columns", "count", "jobs", "lent", "newer", "overwritten", "queues", "row_of", "shapes", "users", "views",
    )  # fmt: skip

    def __init__(self, table: Table) -> None:
        self._columns = table.columns
        """The table's own; a table that renumbers its rows takes others and leaves these as they are."""
        self.lent = table.lent
        self.overwritten: dict[str, dict[int, Any]] = {}
        """By column and row: values as they were in this view, where the table has written since."""
        self.newer: Jobs | None = None
        self.views: dict[str, npt.NDArray[Any]] = {}
        self.count = table.count
        self.jobs = table.jobs
        self.row_of = table.row_of
        self.shapes = table.shapes
        self.users = table.users
        self.queues = table.queues

    def column(self, name: str) -> npt.NDArray[Any]:
        view = self.views.get(name)
        if view is None:
            if self._untouched(name):
                view = self._columns[name][: self.count]
                self.lent.add(name)
            else:
                view = self._as_it_was(name)
            view.flags.writeable = False
            self.views[name] = view
        return view

    def value(self, row: int, name: str) -> Any:
        """One plain number, without making a view of the whole column."""
        view = self.views.get(name)
        if view is not None:
            return view.item(row)
        return self._columns[name].item(row) if self._untouched(name) else self.column(name).item(row)

    def values(self, row: int, names: Sequence[str]) -> list[Any]:
        """Several columns of one row, as plain numbers."""
        if self.newer is None and not self.overwritten:
            columns = self._columns
            return [columns[name].item(row) for name in names]
        return [self.value(row, name) for name in names]

    def _untouched(self, name: str) -> bool:
        """Whether the table still holds this column as it was."""
        return name in WRITE_ONCE or (self.newer is None and name not in self.overwritten)

    def _as_it_was(self, name: str) -> npt.NDArray[Any]:
        """Goes back from the next newer view that has the column whole, or from the table."""
        passed: list[Jobs] = [self]
        view = self.newer
        while view is not None and name not in view.views:
            passed.append(view)
            view = view.newer
        whole = self._columns[name] if view is None else view.views[name]
        column: npt.NDArray[Any] = whole[: self.count].copy()
        for older in reversed(passed):
            for row, value in older.overwritten.get(name, {}).items():
                if row < self.count:
                    column[row] = value
        return column

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
        return np.flatnonzero(self.state == _WAITING)

    def training(self) -> BoolArray:
        state = self.state
        mask: BoolArray = (state >= _TRAINING[0]) & (state <= _TRAINING[2])
        return mask

    def running(self) -> npt.NDArray[np.intp]:
        """Rows of jobs that train and are not in flight: the ones a policy may touch."""
        return np.flatnonzero(self.state == _TRAINING[0])

    def trained_seconds(self, now: float) -> FloatArray:
        seconds: FloatArray = self.attained + np.where(self.training(), now - self.since, 0.0)
        return seconds

    def job(self, row: int) -> Job:
        return self.jobs[row]

    def state_of(self, row: int) -> State:
        state: State = STATES[self.value(row, "state")]
        return state

    def shape_at(self, row: int) -> Shape:
        shape: Shape = self.shapes[self._columns["shape"].item(row)]
        return shape
