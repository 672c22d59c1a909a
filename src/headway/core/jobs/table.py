"""Jobs as a table: the growing original that a cluster writes. What a snapshot shows of it is in `view`.

Rows are in arrival order. Rows of finished jobs stay until more than half are dead. Then the table is compacted and its
rows are renumbered; `Table.generation` counts how often. Users, queues and shapes of which no job is left leave then,
too, once they are many.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from headway.core.job import Can, Job, JobId, Role
from headway.core.jobs.columns import JobColumns, Version
from headway.core.jobs.row import MUTABLE, PLAIN, JobRow, Numbers
from headway.core.jobs.shapes import Shapes
from headway.core.node import Nodes
from headway.core.placement import Shape, ShapeKey, shape_key, shape_of
from headway.core.states import OVER, State

MOST_ROLES = 4096
MOST_UNUSED = 64
"""Names and shapes of which no job is left stay until there are more than these, and more than are in use."""
FEW_DEAD = 64
"""Fewer rows of finished jobs than this stay."""
Key = TypeVar("Key", bound=Hashable)
_WAITING = int(State.WAITING)
_STOP = int(Can.STOP)


class Table:
    """The rows that a cluster writes, and what placing its jobs depends on."""

    def __init__(self, nodes: Nodes) -> None:
        self.count = 0
        self.dead = 0
        self.arrivals = 0
        self.generation = 0
        self.row_of: dict[JobId, int] = {}
        self.shapes = Shapes.of((), nodes)
        self.users: dict[str, int] = {}
        """Name to number, in order of arrival. A compaction may make another, in the same order."""
        self.queues: dict[str, int] = {}
        self._shape_of: dict[ShapeKey, int] = {}
        self._shape_of_roles: dict[int, tuple[tuple[Role, ...], int]] = {}
        """By identity of the roles, which are kept beside it so that the identity stays theirs."""
        self._shape_jobs: list[Job] = []
        self.columns = JobColumns(Numbers(self.users, self.queues))
        self.jobs: list[Job] = self.columns.jobs
        self.all_can_stop = True
        self.any_elastic = False
        self.last_touched = -np.inf
        self._newest: Version | None = None
        self._nodes = nodes

    def handed_out(self, version: Version) -> None:
        """A view of the present rows was made: from now on it keeps what they were."""
        if self._newest is not None:
            self._newest.newer = version
        self._newest = version

    def get(self, name: str, row: int) -> Any:
        """One plain number."""
        return getattr(self.columns.rows[row], name) if name in MUTABLE else self.columns.fixed(name, row)

    def shape_at(self, row: int) -> Shape:
        return self.shapes[self.columns.shapes[row]]

    def column(self, name: str) -> npt.NDArray[Any]:
        """The live column, for reading only."""
        columns = self.columns
        return (columns.mutable(name) if name in MUTABLE else columns.lend(name))[: self.count]

    def set(self, name: str, row: int, value: float) -> None:
        setattr(self.write(row), name, PLAIN[name](value))
        if name == "touched":
            self.last_touched = max(self.last_touched, value)

    def read(self, row: int) -> JobRow:
        """The row as it is now, for reading only."""
        return self.columns.rows[row]

    def write(self, row: int) -> JobRow:
        """The row, to be written. The newest view keeps a copy of what it was."""
        columns, newest = self.columns, self._newest
        fields = columns.rows[row]
        if newest is not None and row not in newest.kept:
            newest.kept[row] = fields.copy()
        columns.journal.append(row)
        return fields

    def append(self, job: Job, now: float) -> int:
        row = self.count
        self.users.setdefault(job.user, len(self.users))
        self.queues.setdefault(job.queue, len(self.queues))
        self.columns.append(job, self._shape(job), self.arrivals, JobRow(_WAITING, float(now)))
        self.row_of[job.id] = row
        if self.all_can_stop and not (job.checkpoints and int(job.can) & _STOP):
            self.all_can_stop = False
        self.count += 1
        self.arrivals += 1
        return row

    def _shape(self, job: Job) -> int:
        """Jobs of a trace mostly share the same roles object, so its identity is looked up first."""
        known = self._shape_of_roles.get(id(job.roles))
        if known is not None and known[0] is job.roles:
            return known[1]
        number = self._shape_of_key(job)
        if len(self._shape_of_roles) >= MOST_ROLES:
            self._shape_of_roles.clear()
        self._shape_of_roles[id(job.roles)] = (job.roles, number)
        return number

    def _shape_of_key(self, job: Job) -> int:
        wanted = shape_key(job)
        number = self._shape_of.get(wanted)
        if number is None:
            number = len(self.shapes)
            self._shape_of[wanted] = number
            self._shape_jobs.append(job)
            self.shapes = self.shapes.and_one(shape_of(job, self._nodes), self._nodes)
            self.any_elastic = self.any_elastic or self.shapes[-1].elastic
        return number

    def set_nodes(self, nodes: Nodes) -> None:
        """Nodes came, went or changed, and the meaning of a shape's vectors with them."""
        self._nodes = nodes
        self.shapes = Shapes.of((shape_of(job, nodes) for job in self._shape_jobs), nodes)

    def adjust_nodes(self, nodes: Nodes) -> None:
        """Nodes have other amounts or labels; their kinds of resources stay."""
        self._nodes = nodes
        self.shapes = self.shapes.on(nodes)

    def compact(self) -> npt.NDArray[np.intp] | None:
        """Drops dead rows when they are more than half. Returns the rows that are kept, or None if nothing was done."""
        if self.dead < FEW_DEAD or 2 * self.dead <= self.count:
            return None
        kept = np.flatnonzero(~np.isin(self.column("state"), [int(state) for state in OVER]))
        self._keep(kept.tolist())
        self.jobs, self._newest = self.columns.jobs, None
        self.row_of = {job.id: row for row, job in enumerate(self.jobs)}
        self.count, self.dead = len(kept), 0
        self.generation += 1
        return kept

    def _keep(self, rows: list[int]) -> None:
        """These rows alone, and the users, queues and shapes of their jobs. Views of the table have the old ones."""
        columns = self.columns
        jobs, shapes = [columns.jobs[row] for row in rows], [columns.shapes[row] for row in rows]
        self.users = _used(self.users, {job.user for job in jobs})
        self.queues = _used(self.queues, {job.queue for job in jobs})
        keys = list(self._shape_of)
        of_key = _used(self._shape_of, {keys[number] for number in shapes})
        if of_key is not self._shape_of:
            shapes = [of_key[keys[number]] for number in shapes]
            old = [self._shape_of[key] for key in of_key]
            self._shape_of, self._shape_of_roles = of_key, {}
            self._shape_jobs = [self._shape_jobs[number] for number in old]
            self.shapes = Shapes.of([self.shapes[number] for number in old], self._nodes)
        self.columns = columns.kept(rows, Numbers(self.users, self.queues), shapes)


def _used(numbers: dict[Key, int], used: AbstractSet[Key]) -> dict[Key, int]:
    """Those in use, numbered anew in their old order; the same dictionary while few are not in use."""
    if len(numbers) <= len(used) + max(MOST_UNUSED, len(used)):
        return numbers
    return {key: number for number, key in enumerate(key for key in numbers if key in used)}
