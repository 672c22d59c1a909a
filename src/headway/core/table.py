"""Jobs as columns: the growing original that a cluster owns. What a snapshot sees of it is in `view`.

Rows are in arrival order. Rows of finished jobs stay until more than half are dead, then the table is compacted and
rows are renumbered (`Table.generation` tells).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.job import Can, Job, JobId, Role
from headway.core.node import Nodes
from headway.core.shape import Key, Shape, key, shape_of
from headway.core.states import OVER
from headway.core.view import MUTABLE, WRITE_ONCE, Jobs

__all__ = ["MUTABLE", "WRITE_ONCE", "Jobs", "Table"]

MOST_ROLES = 4096


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
        self._shape_of_roles: dict[int, tuple[tuple[Role, ...], int]] = {}
        """By identity, which holds as long as the roles are kept beside it."""
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
        """Jobs of a trace mostly share their very roles: those are asked first, before what is in them."""
        known = self._shape_of_roles.get(id(job.roles))
        if known is not None and known[0] is job.roles:
            return known[1]
        number = self._shape_of_key(job)
        if len(self._shape_of_roles) >= MOST_ROLES:
            self._shape_of_roles.clear()
        self._shape_of_roles[id(job.roles)] = (job.roles, number)
        return number

    def _shape_of_key(self, job: Job) -> int:
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
