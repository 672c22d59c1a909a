"""A recorded run as a cluster: it yields the recorded snapshots, and compares plans instead of applying them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from headway.core.board import Board
from headway.core.estimates import Beliefs, Estimates, OnTypes
from headway.core.job import Job, JobId
from headway.core.node import FloatArray, Nodes
from headway.core.plan import Plan
from headway.core.scaling import Scaling, SizeSpan
from headway.core.snapshot import UNWATCHED, Flight, GpuUse, Snapshot, TrainedMode
from headway.core.states import OVER, State
from headway.record.beliefs import COLUMNS, UNTOLD, unpacked
from headway.record.lines import (
    Change,
    CycleLine,
    End,
    Head,
    JobLine,
    Line,
    NodesLine,
    unpack_job,
    unpack_placement,
    unpack_plan,
    unpack_sample,
)
from headway.record.logfile import LogError
from headway.record.reading import MALFORMED, LogReader


@dataclass(frozen=True, slots=True)
class Difference:
    cycle: int
    now: float
    recorded: Plan
    replayed: Plan


@dataclass(slots=True)
class ReplayCluster:
    path: Path
    speed: Callable[[Job, tuple[int, ...]], float] = lambda _job, _counts: math.nan
    """Answers a policy that asks for a speed that the recorded policy did not ask for."""
    heads: list[Head] = field(default_factory=list)
    cycles: int = 0
    complete: bool = False
    differences: list[Difference] = field(default_factory=list)
    _reader: LogReader = field(init=False)
    _lines: Iterator[Line] = field(init=False)
    _board: Board | None = None
    _rows: dict[int, int] = field(default_factory=dict)
    """Arrival number to row."""
    _beliefs: FloatArray = field(default_factory=lambda: np.zeros((64, COLUMNS)))
    """By row, as `packed` packs them."""
    _rich: bool = False
    _speeds: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)
    _scalings: dict[int, Scaling] = field(default_factory=dict)
    """By arrival number."""
    _on_types: dict[int, OnTypes] = field(default_factory=dict)
    """By arrival number; empty in a log whose policy did not ask."""
    _standing: TrainedMode = UNWATCHED
    _recorded: Plan = field(default_factory=Plan)
    _by_part: bool = False
    _next: Head | None = None
    """The head line at which the last part has ended."""
    _at: tuple[int, float] = (0, 0.0)

    def __post_init__(self) -> None:
        self._reader = LogReader(self.path)
        self._lines = iter(self._reader)

    def next_snapshot(self) -> Snapshot | None:
        for line in self._lines:
            if self._by_part and isinstance(line, Head) and self.heads:
                self._next = line
                return None
            try:
                snapshot = self._follow(line)
            except MALFORMED as error:
                why = f"the line does not follow from those before it: {type(error).__name__}: {error}"
                raise self._reader.damaged(why) from error
            if snapshot is not None:
                return snapshot
        return None

    def parts(self) -> Iterator[Head]:
        """Head line by head line. Until the next one is asked for, snapshots are those of this part: a run that was
        started again may have other options.
        """
        self._by_part, self._next = True, next((line for line in self._lines if isinstance(line, Head)), None)
        while self._next is not None:
            head, self._next = self._next, None
            self._follow(head)
            yield head

    def _follow(self, line: Line) -> Snapshot | None:
        """The snapshot of a line that has one."""
        match line:
            case Head():
                self.heads.append(line)
                self._board, self._rows, self._speeds, self._scalings, self._on_types = None, {}, {}, {}, {}
                self._standing = UNWATCHED
            case NodesLine():
                before = () if self._board is None else self._board.nodes.nodes
                nodes = Nodes.of(line.table(before), line.kinds)
                if self._board is None:
                    self._board = Board(nodes, self._compacted)
                else:
                    self._board.set_nodes(nodes)
            case JobLine():
                self._add(line)
            case CycleLine():
                return self._snapshot(line)
            case End():
                self.complete = True
        return None

    @property
    def recorded(self) -> Plan:
        """The recorded plan for the last snapshot."""
        return self._recorded

    def apply(self, plan: Plan) -> None:
        self.cycles += 1
        if plan != self._recorded:
            self.differences.append(Difference(*self._at, self._recorded, plan))
        self._need_board().compact()

    def joined_by(self, jobs: Iterable[Job], now: float) -> Snapshot:
        """The end of the log, as it would be if these jobs came now, which are not there yet."""
        board = self._need_board()
        for job in jobs:
            row = board.row(job.id)
            if row is None or board.state(row) in OVER:
                board.add(replace(job, submit=now), now)
        return board.snapshot(now).standing_as(self._standing)

    def _need_board(self) -> Board:
        if self._board is None:
            raise LogError(f"{self.path}: a job or a cycle comes before the nodes; the log is damaged")
        return self._board

    def _add(self, line: JobLine) -> None:
        board = self._need_board()
        board.table.arrivals = line.serial  # a file that goes on from another begins with a later number
        row = board.add(unpack_job(line.job), 0.0)
        self._rows[line.serial] = row
        if row == len(self._beliefs):
            self._beliefs = np.concatenate([self._beliefs, np.zeros_like(self._beliefs)])
        self._beliefs[row] = UNTOLD

    def _compacted(self, kept: list[int]) -> None:
        new_row = {old: new for new, old in enumerate(kept)}
        self._rows = {serial: new_row[row] for serial, row in self._rows.items() if row in new_row}
        self._beliefs[: len(kept)] = self._beliefs[kept]

    def _snapshot(self, line: CycleLine) -> Snapshot:
        board, rows = self._need_board(), self._rows
        for change in line.changed:
            restore(board, rows[change.serial], change)
        for packed in line.samples:
            board.sampled(unpack_sample(packed))
        for job, sentence in line.notes:
            board.note(JobId(job), sentence)
        self._use(board, line)
        for number, *told in line.beliefs:
            self._beliefs[rows[cast(int, number)], : len(told)] = [
                math.nan if value is None else value for value in told
            ]
            self._rich = self._rich or len(told) == COLUMNS
        for serial, counts, speed in line.speeds:
            self._speeds[serial, tuple(counts)] = math.nan if speed is None else speed
        for serial, apart, least, speeds in line.scalings:
            known = [math.nan if speed is None else speed for speed in speeds]
            self._scalings[serial] = Scaling([0.0] * least + known, math.nan if apart is None else apart)
        for serial, seconds, measured in line.on_types:
            self._on_types[serial] = OnTypes(
                tuple(math.inf if one is None else one for one in seconds), tuple(measured)
            )
        self._recorded, self._at = unpack_plan(line), (line.cycle, line.now)
        if line.standing is not None:
            self._standing = TrainedMode(*line.standing)
        bare = board.snapshot(line.now).standing_as(self._standing)
        estimates = Estimates(self._columns, self._speed, scaling=self._scaling)
        return bare.with_estimates(estimates.with_types(self._types if self._on_types else None))

    def _use(self, board: Board, line: CycleLine) -> None:
        for serial, cores in line.used_cpu:
            if serial in self._rows:
                board.uses(self._rows[serial], cores)
        for serial, devices, busy, memory in line.gpus:
            if serial in self._rows:
                board.uses_gpus(self._rows[serial], GpuUse(tuple(devices), busy, memory))

    def _speed(self, row: int, counts: tuple[int, ...]) -> float:
        """The speed that the policy was given in the recorded run."""
        board = self._need_board()
        told = self._speeds.get((int(board.table.get("serial", row)), counts))
        return self.speed(board.job(row), counts) if told is None else told

    def _types(self, rows: Sequence[int]) -> list[OnTypes]:
        """What the policy was told of types. What it did not ask for is told as if all were alike."""
        board = self._need_board()
        alike = OnTypes((1.0,) * len(board.nodes.types.names), (False,) * len(board.nodes.types.names))
        return [self._on_types.get(int(board.table.get("serial", row)), alike) for row in rows]

    def _scaling(self, row: int, span: SizeSpan) -> Scaling:
        """The same for all sizes. A log of an earlier release has single sizes only."""
        told = self._scalings.get(int(self._need_board().table.get("serial", row)))
        if told is not None and len(told.speeds) > span.max:
            return told
        return Scaling.asked_one_by_one(lambda count: self._speed(row, (count,)), span)

    def _columns(self) -> Beliefs:
        known = self._beliefs[: self._need_board().table.count].copy()
        return unpacked(known, rich=self._rich)


def snapshots(path: Path) -> Iterator[Snapshot]:
    """The recorded snapshots, one after the other."""
    past = ReplayCluster(path)
    while (snapshot := past.next_snapshot()) is not None:
        yield snapshot
        past.apply(past.recorded)


def restore(board: Board, row: int, change: Change) -> None:
    """Puts a job into the state that the log has."""
    flight = None
    if change.flight is not None:
        towards, since, until = change.flight
        flight = Flight(unpack_placement(towards), since, math.inf if until is None else until)
    board.restore(row, State(change.state), unpack_placement(change.placement), flight)
    values = {
        "since": change.since, "attained": change.attained, "service": change.service,
        "touched": -math.inf if change.touched is None else change.touched,
        "first_start": math.nan if change.first_start is None else change.first_start,
        "saved": change.saved, "stops": change.stops,
    }  # fmt: skip
    for name, value in values.items():
        board.table.set(name, row, value)
