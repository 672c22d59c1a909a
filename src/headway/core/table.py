"""Jobs as columns. `Table` is the growing original that a cluster owns; `Jobs` is what a snapshot sees of it.

Rows are in arrival order. Rows of finished jobs stay until more than half are dead, then the table is compacted and
rows are renumbered (`Table.generation` tells). Columns that never change after arrival are shared by all snapshots;
those that do are shared as well until somebody looks: a column that was looked at is copied on the next write, and of
one that was not only the values that were written over are kept. A snapshot therefore costs what changed and what was
asked of it, not what exists. All this is decided by what was handed out, never by counting references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Can, Job, JobId
from headway.core.node import BoolArray, FloatArray, IntArray, Nodes
from headway.core.shape import Key, Shape, key, shape_of
from headway.core.states import OVER, STATES, State

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


class Table:
    """The columns that a cluster writes."""

    def __init__(self, nodes: Nodes) -> None:
        self.count = 0
        self.dead = 0
        self.arrivals = 0
        self.generation = 0
        self.jobs: list[Job] = []
        self.row_of: dict[JobId, int] = {}
        self.shapes: list[Shape] = []
        self.users: dict[str, int] = {}
        """Name to number, in order of arrival; never shrinks."""
        self.queues: dict[str, int] = {}
        self._shape_of: dict[Key, int] = {}
        self._shape_jobs: list[Job] = []
        self.columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(64, dtype) for name, dtype in (WRITE_ONCE | MUTABLE).items()
        }
        self.lent: set[str] = set()
        """Columns of which somebody has a view."""
        self._latest: Jobs | None = None
        self._nodes = nodes

    def view(self) -> Jobs:
        view = Jobs(self)
        if self._latest is not None:
            self._latest.newer = view
        self._latest = view
        return view

    def get(self, name: str, row: int) -> Any:
        return self.columns[name][row]

    def number(self, name: str, row: int) -> Any:
        """The same as a plain number, which further arithmetic does faster than numpy's."""
        return self.columns[name].item(row)

    def column(self, name: str) -> npt.NDArray[Any]:
        """The live column, for reading only."""
        return self.columns[name][: self.count]

    def set(self, name: str, row: int, value: float) -> None:
        column = self.columns[name]
        if name in self.lent:
            column = self.columns[name] = column.copy()
            self.lent.discard(name)
        if self._latest is not None:
            kept = self._latest.overwritten
            before = kept.get(name)
            if before is None:
                before = kept[name] = {}
            if row not in before:
                before[row] = column.item(row)
        column[row] = value

    def append(self, job: Job, now: float) -> int:
        row = self.count
        if row == len(self.columns["submit"]):
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate([column, np.zeros(len(column), column.dtype)])
            self.lent.clear()
        values = {
            "submit": job.submit, "shape": self._shape(job), "width": job.replicas, "priority": job.priority,
            "user": self.users.setdefault(job.user, len(self.users)),
            "queue": self.queues.setdefault(job.queue, len(self.queues)),
            "deadline": np.inf if job.deadline is None else job.deadline,
            "declared": np.nan if job.seconds is None else job.seconds,
            "can": int(job.can & ~(Can.MOVE | Can.STOP)) if not job.checkpoints else int(job.can),
            "serial": self.arrivals, "since": now, "touched": -np.inf, "first_start": np.nan,
        }  # fmt: skip
        # The other columns are zero behind the last row.
        for name, value in values.items():
            self.columns[name][row] = value
        self.jobs.append(job)
        self.row_of[job.id] = row
        self.count += 1
        self.arrivals += 1
        return row

    def _shape(self, job: Job) -> int:
        wanted = key(job)
        number = self._shape_of.get(wanted)
        if number is None:
            number = len(self.shapes)
            self._shape_of[wanted] = number
            self._shape_jobs.append(job)
            self.shapes = [*self.shapes, shape_of(job, self._nodes)]
        return number

    def set_nodes(self, nodes: Nodes) -> None:
        """Nodes came, went or changed: what a shape's vectors mean may have changed with them."""
        self._nodes = nodes
        self.shapes = [shape_of(job, nodes) for job in self._shape_jobs]

    def compact(self) -> npt.NDArray[np.intp] | None:
        """Drops dead rows when they are more than half; returns the rows kept, or None where nothing was done."""
        if self.dead < 64 or 2 * self.dead <= self.count:
            return None
        kept = np.flatnonzero(~np.isin(self.columns["state"][: self.count], [int(state) for state in OVER]))
        size = max(64, 2 * len(kept))
        columns = {}
        for name, column in self.columns.items():
            columns[name] = np.zeros(size, column.dtype)
            columns[name][: len(kept)] = column[kept]
        self.columns, self.lent, self._latest = columns, set(), None
        self.jobs = [self.jobs[row] for row in kept]
        self.row_of = {job.id: row for row, job in enumerate(self.jobs)}
        self.count, self.dead = len(kept), 0
        self.generation += 1
        return kept
