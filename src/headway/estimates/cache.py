"""What the book of progress has worked out so far, as columns by row, so that asking costs what changed.

A row's belief is worked out anew when the job reported, changed its state, or like jobs taught something about its
model; the others keep theirs. Jobs that never reported are told by groups: all that are alike have the same answer,
and an answer is worked out again when what it rests on has changed.

This is a memory of answers, not of evidence: with it and without it the book says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headway.core.estimates import Basis, CodeArray
from headway.core.job import Job, JobId
from headway.core.jobs.view import Jobs
from headway.core.node import FloatArray, Nodes
from headway.core.snapshot import Snapshot
from headway.estimates.fit.history import History
from headway.estimates.fit.like import Like, Likes

NOT_SILENT = np.inf
GroupKey = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One job as its own reports tell it."""

    left: float
    """Not a number where its reports do not tell."""
    at: float
    spread: float
    basis: Basis
    odd: Basis
    """Why its reports are not believed; NOTHING where they are, or where there are none."""
    silent_at: float
    """When they will not be believed any more, unless another one comes."""
    growth: int
    growth_since: float


NO_REPORTS = Row(np.nan, 0.0, np.nan, Basis.NOTHING, Basis.NOTHING, NOT_SILENT, 0, np.nan)
RowOf = Callable[[int], Row]


def group_of(job: Job) -> GroupKey:
    """Jobs with equal keys are told the same while they have not reported."""
    return job.user, job.queue, job.model, job.roles, job.target


@dataclass(slots=True, eq=False)
class Columns:
    """By row."""

    left: FloatArray
    at: FloatArray
    spread: FloatArray
    basis: CodeArray
    odd: CodeArray
    silent_at: FloatArray
    growth: CodeArray
    growth_since: FloatArray
    group: npt.NDArray[np.int32]
    steps: FloatArray
    """Training steps in all as the user said; not a number where he did not."""

    @classmethod
    def empty(cls, size: int) -> Columns:
        none, zero, codes = np.full(size, np.nan), np.zeros(size), np.zeros(size, np.uint8)
        return cls(
            none, zero, none.copy(), codes, codes.copy(), np.full(size, NOT_SILENT), codes.copy(), none.copy(),
            np.zeros(size, np.int32), none.copy(),
        )  # fmt: skip

    def set(self, row: int, found: Row) -> None:
        self.left[row], self.at[row], self.spread[row] = found.left, found.at, found.spread
        self.basis[row], self.odd[row], self.silent_at[row] = found.basis, found.odd, found.silent_at
        self.growth[row], self.growth_since[row] = found.growth, found.growth_since

    def resized(self, size: int, rows: npt.NDArray[np.intp] | None = None) -> Columns:
        """So many rows, the first of them those that were given (all, in their order, by default)."""
        other = Columns.empty(size)
        for name in Columns.__slots__:
            old = getattr(self, name)
            old = old if rows is None else old[rows]
            getattr(other, name)[: len(old)] = old
        return other


@dataclass(slots=True, eq=False)
class Known:
    """Belongs to one book at a time: folding hands it on. A book that has lost it works everything out."""

    owner: object = None
    jobs: Jobs | None = None
    """The view in which the columns are up to date, apart from what is stale."""
    cycle: int = -1
    columns: Columns = field(default_factory=lambda: Columns.empty(64))
    count: int = 0
    stale: set[int] = field(default_factory=set)
    groups: dict[GroupKey, int] = field(default_factory=dict)
    group_jobs: list[Job] = field(default_factory=list)
    likes: Likes = field(default_factory=Likes)

    def follow(self, owner: object, snapshot: Snapshot, reported: Iterable[int]) -> None:
        """A further snapshot was folded. Where one was missed, everything is looked at again."""
        jobs, rows_before = snapshot.jobs, self.jobs
        if self.owner is not owner or rows_before is None or snapshot.cycle != self.cycle + 1:
            self.owner, self.count = owner, 0
            self.stale.clear()
        elif jobs.row_of is not rows_before.row_of:
            self._renumber(rows_before.row_of, jobs)
        self.jobs, self.cycle = jobs, snapshot.cycle
        if jobs.count > self.count:
            self._append(jobs)
        self.stale.update(snapshot.changed)
        self.stale.update(reported)

    def retaught(self, tracked: Mapping[JobId, object], model: str) -> None:
        """Like jobs taught something about a model: whoever reported and is of that model is looked at again."""
        assert self.jobs is not None
        row_of = self.jobs.row_of
        for job_id in tracked:
            row = row_of.get(job_id)
            if row is not None and self.jobs.job(row).model == model:
                self.stale.add(row)

    def like(self, group: int, history: History, nodes: Nodes) -> Like:
        return self.likes.of(group, self.group_jobs[group], history, nodes)

    def up_to_date(self, owner: object, snapshot: Snapshot, row_of: RowOf) -> Known:
        """Columns for this snapshot; only what is stale is worked out, where the memory is this book's."""
        if self.owner is not owner or self.jobs is not snapshot.jobs:
            fresh = Known()
            fresh.follow(owner, snapshot, range(snapshot.jobs.count))
            return fresh.up_to_date(owner, snapshot, row_of)
        for row in self.stale:
            if row < self.count:
                self.columns.set(row, row_of(row))
        self.stale.clear()
        return self

    def _append(self, jobs: Jobs) -> None:
        if jobs.count > len(self.columns.left):
            self.columns = self.columns.resized(2 * jobs.count)
        columns, new = self.columns, range(self.count, jobs.count)
        for row in new:
            job = jobs.job(row)
            key = group_of(job)
            number = self.groups.get(key)
            if number is None:
                number = self.groups[key] = len(self.group_jobs)
                self.group_jobs.append(job)
            columns.group[row] = number
            columns.steps[row] = np.nan if job.steps is None else job.steps
            columns.set(row, NO_REPORTS)
        self.stale.update(new)
        self.count = jobs.count

    def _renumber(self, before: Mapping[JobId, int], jobs: Jobs) -> None:
        """The table forgot finished jobs. Those that are left keep their order, and new ones come behind."""
        kept = [old for job in jobs.jobs[: jobs.count] if (old := before.get(job.id)) is not None and old < self.count]
        new_row = {old: new for new, old in enumerate(kept)}
        self.columns = self.columns.resized(max(64, 2 * jobs.count), np.array(kept, np.intp))
        self.stale = {new_row[row] for row in self.stale if row in new_row}
        self.count = len(kept)
