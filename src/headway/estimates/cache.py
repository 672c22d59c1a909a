"""What the book of progress has computed so far, as columns by row, so that asking costs what changed.

Example: of 5,000 jobs, two have reported since beliefs were last asked for. Two rows are computed, the others copied.
A row is computed again when its job reported, changed its state, or when like jobs taught something about its model.
Jobs that never reported are answered by group: jobs that are alike have the same answer.

Everything here is a value: folding a snapshot makes another cache and leaves the old one as it is. With and without a
cache the book believes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.estimates import Basis, Beliefs, CodeArray, OnTypes
from headway.core.job import Job
from headway.core.jobs.view import Jobs
from headway.core.node import FloatArray, Nodes
from headway.core.scaling import Scaling
from headway.core.snapshot import Snapshot
from headway.estimates.history.similar_jobs import SimilarJobsCache
from headway.estimates.plain_books import declared_beliefs
from headway.estimates.speed.types import Leaning

NOT_SILENT = np.inf
FEW = 64
"""Up to this many jobs are remembered as stale, however few there are."""
GroupKey = tuple[object, ...]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class BeliefRow:
    """What one job's own reports say."""

    left: float
    """NaN where its reports do not tell."""
    at: float
    spread: float
    basis: Basis
    odd: Basis
    """Why its reports are not believed; NOTHING where they are, or where there are none."""
    silent_at: float
    """When its reports will no longer be believed, unless another one comes."""
    growth: int
    growth_since: float


NO_REPORTS = BeliefRow(np.nan, 0.0, np.nan, Basis.NOTHING, Basis.NOTHING, NOT_SILENT, 0, np.nan)
ReadRow = Callable[[int], BeliefRow]


class BeliefColumns(NamedTuple):
    """The same by row. Filled where it is made, and never written again."""

    numbers: FloatArray
    """(5, rows): left, at, spread, silent_at, growth_since."""
    codes: CodeArray
    """(3, rows): basis, odd, growth."""
    group: npt.NDArray[np.int32]
    """The number of the job's group."""
    steps: FloatArray
    """Training steps in all, as the user said; NaN where the user did not."""

    @property
    def left(self) -> FloatArray:
        return self.numbers[0, :]

    @property
    def at(self) -> FloatArray:
        return self.numbers[1, :]

    @property
    def spread(self) -> FloatArray:
        return self.numbers[2, :]

    @property
    def silent_at(self) -> FloatArray:
        return self.numbers[3, :]

    @property
    def growth_since(self) -> FloatArray:
        return self.numbers[4, :]

    @property
    def basis(self) -> CodeArray:
        return self.codes[0, :]

    @property
    def odd(self) -> CodeArray:
        return self.codes[1, :]

    @property
    def growth(self) -> CodeArray:
        return self.codes[2, :]

    def copied(self, rows: Rows | None, count: int) -> BeliefColumns:
        """A copy with `count` rows, the first of them these rows, or all; the others are still to be filled."""
        old = self
        if rows is not None:
            old = BeliefColumns(self.numbers[:, rows], self.codes[:, rows], self.group[rows], self.steps[rows])
        before = len(old.group)
        numbers, codes = np.empty((len(self.numbers), count)), np.empty((len(self.codes), count), np.uint8)
        numbers[:, :before], codes[:, :before] = old.numbers, old.codes
        if count == before:
            return BeliefColumns(numbers, codes, old.group, old.steps)
        group, steps = np.empty(count, np.int32), np.empty(count)
        group[:before], steps[:before] = old.group, old.steps
        return BeliefColumns(numbers, codes, group, steps)

    def fill(self, row: int, found: BeliefRow) -> None:
        numbers, codes = self.numbers, self.codes
        numbers[0, row], numbers[1, row], numbers[2, row] = found.left, found.at, found.spread
        numbers[3, row], numbers[4, row] = found.silent_at, found.growth_since
        codes[0, row], codes[1, row], codes[2, row] = found.basis, found.odd, found.growth


_EMPTY = BeliefColumns(np.empty((5, 0)), np.empty((3, 0), np.uint8), np.empty(0, np.int32), np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Jobs with equal keys have the same answer while they have not reported."""

    numbers: Mapping[GroupKey, int] = field(default_factory=dict)
    examples: tuple[Job, ...] = ()
    """One job of each group, by its number."""

    def with_jobs(self, jobs: Iterable[Job]) -> tuple[Groups, list[int]]:
        """The groups with these jobs in them, and the number of each job's group."""
        numbers, examples, found = dict(self.numbers), list(self.examples), []
        for job in jobs:
            number = numbers.setdefault(_group_key(job), len(examples))
            if number == len(examples):
                examples.append(job)
            found.append(number)
        return Groups(numbers, tuple(examples)), found

    def kept(self, numbers: Sequence[int]) -> Groups:
        """These groups only, numbered anew in this order."""
        examples = tuple(self.examples[number] for number in numbers)
        return Groups({_group_key(job): number for number, job in enumerate(examples)}, examples)


def _group_key(job: Job) -> GroupKey:
    """Everything that the answer depends on. What a job runs is no part of it, and may be long."""
    roles = tuple(replace(role, command=(), env=()) if role.command or role.env else role for role in job.roles)
    return (job.user, job.queue, job.model, roles, job.target)


class Answers(NamedTuple):
    """What was computed when beliefs were asked for."""

    serial: npt.NDArray[np.int64]
    """The jobs, by arrival number: rows may be renumbered later."""
    columns: BeliefColumns
    groups: Groups
    similar: SimilarJobsCache
    """What like jobs tell, by group."""

    @classmethod
    def of(cls, jobs: Jobs, read: ReadRow) -> Answers:
        """From nothing: every row is computed."""
        return cls(jobs.serial[:0], _EMPTY, Groups(), SimilarJobsCache()).brought_up_to(jobs, (), read)

    def brought_up_to(self, jobs: Jobs, stale: Iterable[int], read: ReadRow) -> Answers:
        """The answers for the jobs as they are now: stale and new rows are computed, the others are taken over."""
        rows, count, groups, similar = self._rows_left(jobs), jobs.count, self.groups, self.similar
        before = len(self.serial) if rows is None else len(rows)
        columns = self.columns.copied(rows, count)
        if rows is not None:  # groups of which no job is left go with the rows
            used, columns.group[:before] = np.unique(columns.group[:before], return_inverse=True)
            groups, similar = groups.kept(used.tolist()), similar.kept(used.tolist())
        if count > before:
            new = jobs.jobs[before:count]
            groups, columns.group[before:] = groups.with_jobs(new)
            columns.steps[before:] = [np.nan if job.steps is None else job.steps for job in new]
            for row in range(before, count):
                columns.fill(row, read(row))
        for serial in set(stale):
            row_now = jobs.row_of_serial(serial)
            if row_now is not None and row_now < before:
                columns.fill(row_now, read(row_now))
        return Answers(jobs.serial, columns, groups, similar.copy())

    def _rows_left(self, jobs: Jobs) -> Rows | None:
        """The rows that are still in the table; None for all of them. Rows that stay keep their order."""
        old, new = self.serial, jobs.serial
        if len(new) >= len(old) and (not len(old) or new[len(old) - 1] == old[-1]):
            return None
        return np.flatnonzero(np.isin(old, new, assume_unique=True))


class Lean(NamedTuple):
    """What models gain from types of accelerators, by these lessons."""

    lessons: object
    of: Callable[[int], Leaning]
    """By row."""


class BeliefCache(NamedTuple):
    """The answers of the last time that beliefs were asked for, and which of them have become stale since."""

    asked: list[Answers]
    """What was computed for `jobs`, to be handed on; empty until it is asked for. It follows from the rest."""
    answers: Answers | None = None
    """None: everything is to be computed."""
    stale: tuple[int, ...] = ()
    """Arrival numbers."""
    jobs: Jobs | None = None
    """The jobs of the snapshot that was folded last."""
    cycle: int = -1
    tables: dict[int, Scaling] | None = None
    """By arrival number: speeds at all sizes. Filled as they are asked for."""
    nodes: Nodes | None = None
    """The nodes for which the tables hold."""
    on_types: dict[int, tuple[object, Leaning, OnTypes]] | None = None
    """By arrival number: what is believed of types of accelerators, and on which lessons that rests."""

    def after(self, snapshot: Snapshot, touched: Iterable[int], scaled: Iterable[int] = ()) -> BeliefCache:
        """The cache after one more snapshot, in which these rows were touched; empty where a snapshot was missed.

        `scaled`: rows of which the speeds at other sizes may be believed to be otherwise. A change of state alone does
        not change them.
        """
        jobs, before = snapshot.jobs, self.jobs
        answers, stale = (self.asked[0], ()) if self.asked else (self.answers, self.stale)
        if (
            answers is None
            or before is None
            or before.users is not jobs.users  # another table
            or snapshot.cycle != self.cycle + 1
        ):
            return BeliefCache([], None, (), jobs, snapshot.cycle, {}, snapshot.nodes, {})
        newly = tuple(map(jobs.serial_of, touched))
        stale = (*stale, *newly)
        tables, on_types = self._tables_without(map(jobs.serial_of, scaled), snapshot.nodes), self.on_types
        if on_types:
            on_types = on_types.copy() if snapshot.nodes is self.nodes else {}
            for serial in newly:
                on_types.pop(serial, None)
        if len(stale) > max(FEW, jobs.count):  # to compute everything costs no more
            return BeliefCache([], None, (), jobs, snapshot.cycle, tables, snapshot.nodes, on_types)
        return BeliefCache([], answers, stale, jobs, snapshot.cycle, tables, snapshot.nodes, on_types)

    def _tables_without(self, serials: Iterable[int], nodes: Nodes) -> dict[int, Scaling]:
        if self.tables is None or nodes is not self.nodes:
            return {}
        tables = self.tables.copy()
        for serial in serials:
            tables.pop(serial, None)
        return tables

    def table_of(self, snapshot: Snapshot, row: int) -> Scaling | None:
        """The speeds at all sizes that were computed for this job, if it has not been touched since."""
        if self.tables is None or snapshot.jobs is not self.jobs:
            return None
        return self.tables.get(self.jobs.serial_of(row))

    def tables_of(self, snapshot: Snapshot, rows: Sequence[int]) -> list[Scaling | None]:
        """The same for several jobs."""
        tables = self.tables
        if tables is None or snapshot.jobs is not self.jobs:
            return [None] * len(rows)
        return list(map(tables.get, snapshot.jobs.serial[np.array(rows, np.intp)].tolist()))

    def keep_table(self, snapshot: Snapshot, row: int, table: Scaling) -> None:
        if self.tables is not None and snapshot.jobs is self.jobs:
            self.tables[self.jobs.serial_of(row)] = table

    def on_types_of(self, snapshot: Snapshot, row: int, lean: Lean, find: Callable[[Leaning], OnTypes]) -> OnTypes:
        """What is believed of types of accelerators: found again where the job was touched, or its model leans anew."""
        if self.on_types is None or snapshot.jobs is not self.jobs:
            return find(lean.of(row))
        serial = self.jobs.serial_of(row)
        known = self.on_types.get(serial)
        if known is not None and known[0] is lean.lessons:
            return known[2]
        leaning = lean.of(row)
        told = known[2] if known is not None and known[1] is leaning else find(leaning)
        self.on_types[serial] = (lean.lessons, leaning, told)
        return told

    def answers_for(self, snapshot: Snapshot, read: ReadRow) -> Answers:
        """For the snapshot that was folded last, only stale and new rows are computed; for another one, all."""
        jobs = snapshot.jobs
        if jobs is not self.jobs:
            return Answers.of(jobs, read)
        if not self.asked:
            old = self.answers
            self.asked.append(Answers.of(jobs, read) if old is None else old.brought_up_to(jobs, self.stale, read))
        return self.asked[0]


def shown_or_declared(snapshot: Snapshot, columns: BeliefColumns) -> Beliefs:
    """What jobs' own reports say where they are believed; elsewhere what users declared, if anything."""
    declared = declared_beliefs(snapshot)
    # Of a job that does not tell, or is not believed, nothing is shown: its time left and spread are NaN, its basis 0.
    left, spread, basis = columns.left, columns.spread.copy(), columns.basis | columns.odd
    silent = (declared.burning & (snapshot.now > columns.silent_at)).nonzero()[0]
    if len(silent):
        left = left.copy()
        left[silent] = spread[silent] = np.nan
        basis[silent] = int(Basis.SILENT)
    shown = ~np.isnan(left)
    left = np.where(shown, left, declared.left)
    basis[(basis == int(Basis.NOTHING)) & ~np.isnan(left)] = int(Basis.DECLARED)
    return Beliefs(
        left, np.where(shown, columns.at, declared.at), declared.burning, spread,
        columns.growth, columns.growth_since, basis,
    )  # fmt: skip
