"""Jobs as columns. `Table` is the growing original that a cluster owns; `Jobs` is what a snapshot sees of it.

Rows are in arrival order. Rows of finished jobs stay until more than half are dead, then the table is compacted and
rows are renumbered (`Table.generation` tells). Columns that never change after arrival are shared by all snapshots;
those that do are copied on the first write after a snapshot was handed out. The copy is decided by a flag that the
snapshot sets, not by counting references.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Can, Job, JobId
from headway.core.node import BoolArray, FloatArray, IntArray, Nodes
from headway.core.shape import Key, Shape, key, shape_of
from headway.core.states import OVER, State

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

    __slots__ = ("_columns", "_views", "count", "jobs", "queues", "row_of", "shapes", "users")

    def __init__(self, table: Table) -> None:
        self._columns = dict(table.columns)
        self._views: dict[str, npt.NDArray[Any]] = {}
        self.count = table.count
        self.jobs = table.jobs
        self.row_of = table.row_of
        self.shapes = table.shapes
        self.users = table.users
        self.queues = table.queues

    def column(self, name: str) -> npt.NDArray[Any]:
        view = self._views.get(name)
        if view is None:
            view = self._columns[name][: self.count]
            view.flags.writeable = False
            self._views[name] = view
        return view

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
        return State(int(self._columns["state"][row]))

    def shape_at(self, row: int) -> Shape:
        return self.shapes[int(self._columns["shape"][row])]


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
        self._shared: set[str] = set()
        self._nodes = nodes

    def view(self) -> Jobs:
        self._shared.update(MUTABLE)
        return Jobs(self)

    def get(self, name: str, row: int) -> Any:
        return self.columns[name][row]

    def column(self, name: str) -> npt.NDArray[Any]:
        """The live column, for reading only."""
        return self.columns[name][: self.count]

    def set(self, name: str, row: int, value: float) -> None:
        if name in self._shared:
            self.columns[name] = self.columns[name].copy()
            self._shared.discard(name)
        self.columns[name][row] = value

    def append(self, job: Job, now: float) -> int:
        row = self.count
        if row == len(self.columns["submit"]):
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate([column, np.zeros(len(column), column.dtype)])
            self._shared.clear()
        values = {
            "submit": job.submit, "shape": self._shape(job), "width": job.replicas, "priority": job.priority,
            "user": self.users.setdefault(job.user, len(self.users)),
            "queue": self.queues.setdefault(job.queue, len(self.queues)),
            "deadline": np.inf if job.deadline is None else job.deadline,
            "declared": np.nan if job.seconds is None else job.seconds,
            "can": int(job.can & ~(Can.MOVE | Can.STOP)) if not job.checkpoints else int(job.can),
            "serial": self.arrivals, "state": _WAITING, "since": now, "attained": 0.0, "service": 0.0, "size": 0,
            "touched": -np.inf, "first_start": np.nan, "saved": 0.0, "stops": 0,
        }  # fmt: skip
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
        for name, column in self.columns.items():
            fresh = np.zeros(size, column.dtype)
            fresh[: len(kept)] = column[kept]
            self.columns[name] = fresh
        self._shared.clear()
        self.jobs = [self.jobs[row] for row in kept]
        self.row_of = {job.id: row for row, job in enumerate(self.jobs)}
        self.count, self.dead = len(kept), 0
        self.generation += 1
        return kept
