"""The jobs that wait, in order of arrival, and what is known of each: kept from cycle to cycle.

A cycle changes few jobs, so few rows are written, and an observation is mostly a copy. What changes with the clock, the
median or what is free is `sight`'s.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from headway.core.estimates import RowBelief
from headway.core.jobs.columns import JobColumns
from headway.core.jobs.shapes import Shapes
from headway.core.node import FloatArray, Nodes
from headway.core.placement import Shape
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.value.times import Rows

JOB_FEATURES = (
    "left", "age", "known", "spread", "fits", "done", "urgency", "size", "share", "priority", "least", "most",
)  # fmt: skip
"""What an agent sees of a job. The last four change only with the nodes."""
LEFT, AGE, KNOWN, SPREAD, FITS, DONE, URGENCY, SIZE, SHARE, PRIORITY, LEAST, MOST = range(12)
LEFT_SECONDS, LOG_LEFT, SUBMIT, SHAPE, NEED, DEADLINE = range(12, 18)
"""Further columns of the line, which an agent does not see."""
LARGEST_SPREAD = 2.0
"""As far as spreads are told apart; also the spread of what is unknown."""
MOST_LINES = 1024
"""Lines of jobs that join are kept for this many shapes and priorities."""
SHORTEST = 1e-3
"""Seconds: shorter times count as this long in logarithms."""
_WAITING, _RUNNING = int(State.WAITING), int(State.RUNNING)


class WaitingLine:
    """Follows all cycles of one episode."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        """Of the jobs that wait; in the present snapshot, and without those that the draft starts."""
        self._table: FloatArray = np.zeros((128, 18))
        self.ends: dict[int, float] = {}
        """By row: when a running job is believed to end, if that is known; of books that answer row by row."""
        self.all_known = True
        """Whether there is a belief about each job that waits."""
        self.any_deadline = False
        self._any_back = False
        """Whether any job waits that has trained before."""
        self._columns: JobColumns | None = None
        self._nodes: Nodes | None = None
        self._changed: dict[int, None] = {}
        """Rows that changed since what is believed was last written."""
        self._drafted: list[int] = []
        self._shapes: Shapes | None = None
        self._of_shape: list[tuple[float, float, float]] = []
        """By shape: its share of the cluster, and its min and max size."""
        self._lines: dict[tuple[int, int], FloatArray] = {}
        """By shape and priority: the line of a job that joins."""

    @property
    def table(self) -> FloatArray:
        """A row for each job that waits. The first columns are the features, as far as the clock does not matter."""
        return self._table[: len(self.rows)]

    # ── who waits ───────────────────────────────────────────────────────────────────────────────────────

    def note(self, snapshot: Snapshot) -> None:
        """A cycle begins: jobs that have come join the line, those that have started leave it."""
        columns = snapshot.jobs.columns
        renewed = columns is not self._columns or snapshot.nodes is not self._nodes
        if renewed or (self._drafted and self._still_waits(columns)):
            self._begin_anew(snapshot)
            return
        rows = self.rows
        for row in snapshot.changed:
            self._changed[row] = None
            if columns.rows[row].state == _WAITING:
                if not rows or row > rows[-1]:
                    self._join(snapshot, row)
                elif self.place_of(row) is None:
                    self._begin_anew(snapshot)
                    return
            elif rows and row <= rows[-1] and (place := self.place_of(row)) is not None:
                self._leave(place)

    def _still_waits(self, columns: JobColumns) -> bool:
        """Whether a draft was not carried out."""
        drafted, self._drafted = self._drafted, []
        return any(columns.rows[row].state == _WAITING for row in drafted)

    def start(self, place: int) -> None:
        """The draft starts the job at this place: it leaves the line."""
        self._drafted.append(self.rows[place])
        self._leave(place)

    def place_of(self, row: int) -> int | None:
        rows = self.rows
        place = bisect_left(rows, row)
        return place if place < len(rows) and rows[place] == row else None

    def _begin_anew(self, snapshot: Snapshot) -> None:
        """Rows have other numbers than before, a job waits again, or nodes have changed."""
        jobs, self._nodes = snapshot.jobs, snapshot.nodes
        self._columns, self.ends, self.rows, self._drafted = jobs.columns, {}, [], []
        self._changed = dict.fromkeys(range(jobs.count))
        for row in jobs.waiting().tolist():
            self._join(snapshot, row)
        self._any_back = any(jobs.columns.rows[row].attained > 0 for row in self.rows)

    def _join(self, snapshot: Snapshot, row: int) -> None:
        count, job = len(self.rows), snapshot.jobs.jobs[row]
        if count == len(self._table):
            self._table = np.concatenate((self._table, np.zeros_like(self._table)))
        table = self._table
        table[count] = self._first_line(snapshot, row, job.priority)
        table[count, SUBMIT] = job.submit
        if job.deadline is not None:
            self.any_deadline, table[count, DEADLINE] = True, job.deadline
        self.rows.append(row)

    def _first_line(self, snapshot: Snapshot, row: int, priority: int) -> FloatArray:
        """What is the same for jobs of one shape and priority, written once: a copy is faster than numbers."""
        shapes, number = snapshot.jobs.shapes, snapshot.jobs.columns.shapes[row]
        if shapes is not self._shapes or len(self._lines) >= MOST_LINES:
            self._lines = {}
        known = self._lines.get((number, priority))
        if known is None:
            known = self._lines[number, priority] = np.array((
                0.0, 0.0, 1.0, LARGEST_SPREAD, 0.0, 0.0, 0.0, 0.0, *self.fixed(snapshot, row),
                math.nan, 0.0, 0.0, number, shapes[number].roles[0].replicas, math.inf,
            ))  # fmt: skip
        return known

    def _leave(self, place: int) -> None:
        rows, table = self.rows, self._table
        last = len(rows) - 1
        table[place:last] = table[place + 1 : last + 1]
        del rows[place]

    def fixed(self, snapshot: Snapshot, row: int) -> tuple[float, float, float, float]:
        """What follows from the job and the nodes: its share, priority, and bounds of size."""
        jobs = snapshot.jobs
        shapes, number, priority = jobs.shapes, jobs.columns.shapes[row], jobs.jobs[row].priority
        if shapes is not self._shapes:
            self._shapes, self._of_shape = shapes, [(min(share, 1.0), *_bounds(shape)) for shape, share in zip(
                shapes, shapes.share.tolist(), strict=True)]  # fmt: skip
        share, least, most = self._of_shape[number]
        return share, priority / (1.0 + abs(priority)), least, most

    # ── what is believed ────────────────────────────────────────────────────────────────────────────────

    def believe(self, snapshot: Snapshot) -> FloatArray:
        """Writes down what is believed now. Returns the seconds until each running job ends, where that is known."""
        of_row = snapshot.estimates.of_row
        if of_row is None:
            return self._ask_book(snapshot)
        if self._changed:
            changed, self._changed = self._changed, {}
            self._ask_rows(snapshot, changed, of_row)
        ends: FloatArray = np.fromiter(self.ends.values(), np.float64, len(self.ends))
        ends -= snapshot.now
        return np.maximum(ends, 0.0, out=ends)

    def _ask_rows(self, snapshot: Snapshot, changed: Iterable[int], of_row: RowBelief) -> None:
        """The belief about a job follows from its row, so only those that changed are asked for."""
        rows = snapshot.jobs.columns.rows
        for row in changed:
            state = rows[row].state
            if state == _RUNNING:
                left, at, _ = of_row(row)
                if not math.isnan(left):
                    self.ends[row] = at + left
                continue
            self.ends.pop(row, None)
            if state == _WAITING and (place := self.place_of(row)) is not None:
                self._believe_one(place, of_row(row)[0], rows[row].attained)

    def _believe_one(self, place: int, left: float, trained: float) -> None:
        table = self._table
        if math.isnan(left):
            self.all_known = False
            table[place, KNOWN] = 0.0
            return
        table[place, LEFT_SECONDS] = left = max(left, 0.0)
        table[place, LOG_LEFT] = math.log2(max(left, SHORTEST))
        if trained:
            table[place, DONE] = trained / max(trained + left, SHORTEST)

    def _ask_book(self, snapshot: Snapshot) -> FloatArray:
        """All beliefs may have changed."""
        estimates, jobs, table = snapshot.estimates, snapshot.jobs, self.table
        self._changed = {}
        if not estimates.known:
            self.all_known, table[:, KNOWN] = False, 0.0
            return np.zeros(0)
        rows: Rows = np.array(self.rows, np.intp)
        table[:, LEFT_SECONDS] = left = estimates.left_of(rows, snapshot.now)
        known = np.isfinite(left)
        self.all_known = bool(known.all())
        table[:, KNOWN], table[:, LOG_LEFT] = known, np.where(known, np.log2(np.maximum(left, SHORTEST)), 0.0)
        spread = estimates.beliefs.spread
        if spread is not None:
            table[:, SPREAD] = np.fmin(spread[rows], LARGEST_SPREAD)
        if self._any_back:
            trained = jobs.attained[rows]
            table[:, DONE] = np.where(known, trained / np.maximum(trained + left, SHORTEST), 0.0)
        ends = estimates.left_of(jobs.running(), snapshot.now)
        return ends[np.isfinite(ends)]


def _bounds(shape: Shape) -> tuple[float, float]:
    """Min and max size relative to the asked-for one, as logarithms."""
    asked, most = max(1, sum(shape.counts)), sum(role.max for role in shape.roles)
    return math.log2(max(1, sum(shape.min)) / asked), math.log2(max(1, most) / asked)
