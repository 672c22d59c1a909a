"""What a snapshot shows of the jobs: read-only columns over the table that a cluster writes.

A snapshot costs what changed and what was asked of it, not what exists. How that works is in `columns`.
"""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt

from headway.core.job import Job
from headway.core.jobs.columns import Version
from headway.core.jobs.table import Table
from headway.core.jobs.waiting import over, training, waiting
from headway.core.node import BoolArray, FloatArray, IntArray
from headway.core.placement import Shape
from headway.core.states import OVER, STATES, State

_RUNNING = int(State.RUNNING)
_WAITING_ROWS, _RUNNING_ROWS = "waiting rows", "running rows"


class Jobs(Version):
    """The jobs of one snapshot. Columns are made on demand; asking twice costs nothing."""

    __slots__ = (
        "all_can_stop", "any_elastic", "jobs", "last_touched", "last_trained", "queues", "row_of", "shapes", "users",
    )  # fmt: skip

    def __init__(self, table: Table) -> None:
        columns = self.columns = table.columns
        self.kept, self.newer, self.whole = {}, None, {}
        self.last_trained: tuple[float, FloatArray] | None = None
        self.count = table.count
        self.jobs = columns.jobs
        self.row_of = table.row_of
        self.shapes = table.shapes
        self.users = table.users
        self.queues = table.queues
        self.all_can_stop = table.all_can_stop
        """Whether no job forbids being stopped; False where that is not known."""
        self.any_elastic = table.any_elastic
        """Whether any shape so far may have more than one size."""
        self.last_touched = table.last_touched
        """When the last decision about any of them was begun."""
        table.handed_out(self)

    def with_state(self, state: npt.NDArray[np.uint8]) -> Jobs:
        """The same jobs with some of them in other states, to try what would be."""
        other = copy.copy(self)
        other.whole = {name: rows for name, rows in self.whole.items() if name not in (_WAITING_ROWS, _RUNNING_ROWS)}
        other.whole["state"] = state
        other.last_trained = None
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
        """Requested replicas, over all roles."""
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
        """Seconds of training that the user declared; NaN where there are none."""
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
        """When it was first up; NaN before."""
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
        rows = self.whole.get(_WAITING_ROWS)
        if rows is None:
            columns = self.columns
            if self.is_present and self.count == len(columns.jobs) and "state" not in self.whole:
                rows = columns.states().waiting()
            else:
                rows = waiting(self.column("state"))
                rows.flags.writeable = False
            self.whole[_WAITING_ROWS] = rows
        return rows

    def queue_order(self) -> npt.NDArray[np.intp]:
        """Rows of waiting jobs, first submitted first: a job that was changed while it waited keeps its place."""
        rows = self.waiting()
        return rows if self.columns.by_submission else rows[self.submit[rows].argsort(kind="stable")]

    def training(self) -> BoolArray:
        return training(self.column("state"))

    def over(self) -> BoolArray:
        """By row: whether the job is finished, failed or cancelled."""
        return over(self.column("state"))

    def is_over(self, row: int) -> bool:
        return STATES[self.value(row, "state")] in OVER

    def running(self) -> npt.NDArray[np.intp]:
        """Rows of jobs that train and are not in flight: those that a policy may act on."""
        rows = self.whole.get(_RUNNING_ROWS)
        if rows is None:
            rows = self.whole[_RUNNING_ROWS] = (self.column("state") == _RUNNING).nonzero()[0]
            rows.flags.writeable = False
        return rows

    def trained_seconds(self, now: float) -> FloatArray:
        """Kept for the moment that was asked about last: the steps of one plan ask about the same."""
        if self.last_trained is None or self.last_trained[0] != now:
            seconds: FloatArray = self.attained + np.where(self.training(), now - self.since, 0.0)
            seconds.flags.writeable = False
            self.last_trained = (now, seconds)
        return self.last_trained[1]

    def job(self, row: int) -> Job:
        return self.jobs[row]

    def state_of(self, row: int) -> State:
        state: State = STATES[self.value(row, "state")]
        return state

    def shape_at(self, row: int) -> Shape:
        return self.shapes[self.columns.shapes[row]]
