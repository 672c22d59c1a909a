"""Writes a log during the run, and reads one back. After a crash, a log is readable up to its last whole line."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import compress, count
from operator import is_not
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from headway.core.check import Refusal
from headway.core.estimates import OnTypes
from headway.core.node import Nodes
from headway.core.plan import Plan
from headway.core.scaling import Scaling
from headway.core.snapshot import UNWATCHED, Flight, GpuUse, Snapshot
from headway.core.states import OVER
from headway.core.text import writable
from headway.record.beliefs import WrittenBeliefs
from headway.record.lines import (
    Change,
    CycleLine,
    End,
    Head,
    JobLine,
    Line,
    nodes_line,
    pack_decision,
    pack_job,
    pack_placement,
    pack_sample,
)
from headway.record.logfile import LogError, LogFile
from headway.record.reading import read
from headway.record.rotation import Rotation
from headway.record.skipped import LoggedCycle, SkippedCycles

__all__ = ["LogError", "LogWriter", "read"]

MOST_STALE = 1000


class LogWriter:
    """Appends lines, and passes each to the readers.

    `durable` writes each cycle to the file before the plan is applied. If that fails, `trouble` says why, the lines are
    kept, up to a limit, and the next cycle tries again; without `durable` a failure raises. `fresh` starts an empty
    file. The first `written` lines are already in the file and are not written again. `key` is for the marks in place
    of env values.
    """

    def __init__(
        self,
        path: Path | None,
        head: Head,
        *readers: Callable[[Line], None],
        durable: bool = False,
        fresh: bool = False,
        written: int = 0,
        key: bytes = b"",
    ) -> None:
        self.rotation: Rotation | None = None
        """With it, a long file is put aside; the next begins with a head line and every job, as a resumed run does."""
        self.synced = False
        """With it, what changes a job or begins something outlives a power cut before it is begun."""
        self._path, self._head = path, head
        self._next_head: Head | None = None
        self._file = LogFile(path, fresh=fresh)
        self._discard = path is None
        self._durable = durable
        self._encoder = msgspec.json.Encoder(order="deterministic")
        self._readers = readers
        self._written = written
        self._key = key
        self._skipped = SkippedCycles()
        self._begin()

    def _begin(self, cycle: int = 0) -> None:
        """Nothing is told yet: writes the head line, after which all is told anew."""
        self._first_cycle = cycle
        self._first_bytes = 0
        self._nodes: Nodes | None = None
        self._known = -1
        self._stale: set[int] = set()
        self._used_cpu: dict[int, float] = {}
        self._gpus: dict[int, GpuUse] = {}
        """By arrival number: rows change their numbers."""
        self._speeds: dict[int, dict[tuple[int, ...], float]] = {}
        """By arrival number, of jobs that are not over."""
        self._scalings: dict[int, Scaling] = {}
        """The same for speeds at all sizes."""
        self._on_types: dict[int, OnTypes] = {}
        """The same for types of accelerators."""
        self._written_beliefs = WrittenBeliefs()
        self._skipped.count = 0
        self._standing = UNWATCHED
        self._write(self._head)

    def restate(self, head: Head) -> None:
        """From the next cycle on, other settings decide: the log goes on under this head, as a resumed run does."""
        self._next_head = head

    def _restated(self, cycle: int) -> bool:
        if self._next_head is None:
            return False
        self._head, self._next_head = self._next_head, None
        self._begin(cycle)
        return True

    def _rotated(self, cycle: int) -> bool:
        """Puts the file aside if it is long enough, and begins another."""
        path, rotation = self._path, self.rotation
        if path is None or rotation is None or not rotation.due(path, self._file.size, self._first_bytes):
            return False
        if not self._file.flush() or not rotation.shift(path):
            return False
        self._file.close()
        self._file = LogFile(path, fresh=False)
        self._begin(cycle)
        return True

    def cycle(self, snapshot: Snapshot, plan: Plan, refusals: tuple[Refusal, ...] = ()) -> None:
        if self._durable and self._file.is_full() and not self._file.flush() and self._file.is_full():
            changes = (_change(snapshot, row) for row in snapshot.changed)
            self._skipped.add(LoggedCycle(snapshot, plan, refusals), [one for one in changes if one.state in OVER])
            return
        whole = LoggedCycle(self._skipped.folded_into(snapshot), plan, refusals)
        self._cycle(whole, anew=self._restated(snapshot.cycle) or self._rotated(snapshot.cycle))
        if self.synced and (plan.decisions or snapshot.changed):
            self._file.sync()
        elif self._durable:
            self._file.flush()
        elif self._file.has_enough():
            self._file.flush_or_raise()

    def _cycle(self, logged: LoggedCycle, *, anew: bool = False) -> None:
        snapshot, plan, refusals = logged
        if snapshot.nodes is not self._nodes:
            self._write(nodes_line(snapshot.nodes, self._nodes))
            self._nodes = snapshot.nodes
        gone = self._skipped.gone(snapshot.jobs)
        changed = [change for change in gone if change.serial <= self._known]
        fresh = list[tuple[int, int]]()
        for row in range(snapshot.jobs.count) if anew else snapshot.changed:
            change = _change(snapshot, row)
            changed.append(change)
            self._stale.add(change.serial)
            if change.serial > self._known:
                fresh.append((change.serial, row))
            if change.state in OVER:
                self._speeds.pop(change.serial, None)
                self._scalings.pop(change.serial, None)
                self._on_types.pop(change.serial, None)
        for serial, row in sorted(fresh):
            self._known = serial
            self._write(JobLine(serial, pack_job(snapshot.jobs.job(row), self._key)))
        self._forget_stale(snapshot)
        line = CycleLine(snapshot.cycle - self._first_cycle - self._skipped.count, snapshot.now, changed)
        self._fill(line, snapshot, plan)
        if refusals:
            line.refused = [[pack_decision(r.decision), r.why] for r in refusals]
        self._write(line)
        self._first_bytes = self._first_bytes or self._file.size

    def _fill(self, line: CycleLine, snapshot: Snapshot, plan: Plan) -> None:
        estimates = snapshot.estimates
        if estimates.asked or snapshot.samples:
            line.beliefs = self._beliefs(snapshot)
        line.speeds = self._new_speeds(snapshot)
        if estimates.asked_scalings:
            line.scalings = self._new_scalings(snapshot)
        if estimates.asked_types:
            line.on_types = self._new_on_types(snapshot)
        if snapshot.samples:
            line.samples = [pack_sample(sample) for sample in snapshot.samples]
        if snapshot.used_cpu or self._used_cpu:
            line.used_cpu = self._usage(snapshot)
        line.gpus = self._gpu_use(snapshot)
        if snapshot.notes:
            line.notes = list(snapshot.notes)
        if snapshot.standing != self._standing:
            self._standing = snapshot.standing
            line.standing = (self._standing.mode, self._standing.why)
        if plan.decisions:
            line.plan = [pack_decision(decision) for decision in plan.decisions]
        if plan.until != math.inf:
            line.until = plan.until

    def end(self, now: float, unfinished: int) -> None:
        self.retry()
        self._write(End(now, unfinished))
        self.close()

    def close(self) -> None:
        self.retry()
        if self.synced and not self._file.closed:
            self._file.sync()
        self._file.close()

    @property
    def trouble(self) -> str:
        """Why the last lines are not in the file yet; empty if they are."""
        return self._file.trouble

    def retry(self) -> None:
        """Tries to write what could not be written."""
        if not self._file.closed and self._file.flush() and (last := self._skipped.taken_back()) is not None:
            self._cycle(last)
            self._file.flush()

    def _usage(self, snapshot: Snapshot) -> list[tuple[int, float]]:
        used = {snapshot.jobs.serial_of(row): cores for row, cores in snapshot.used_cpu.items()}
        fresh = [(serial, cores) for serial, cores in used.items() if self._used_cpu.get(serial) != cores]
        self._used_cpu = used
        return fresh

    def _gpu_use(self, snapshot: Snapshot) -> list[tuple[int, list[str], float | None, int | None]]:
        used = {snapshot.jobs.serial_of(row): use for row, use in snapshot.gpus.items()}
        before, self._gpus = self._gpus, used
        fresh = [(serial, use) for serial, use in used.items() if before.get(serial) != use]
        return [(serial, list(use.devices), use.busy, use.memory) for serial, use in fresh]

    def _new_speeds(self, snapshot: Snapshot) -> list[tuple[int, list[int], float | None]]:
        fresh: list[tuple[int, list[int], float | None]] = []
        for (row, counts), speed in snapshot.estimates.asked_speeds.items():
            serial = int(snapshot.jobs.serial[row])
            known = self._speeds.setdefault(serial, {})
            if known.get(counts) != speed:
                known[counts] = speed
                fresh.append((serial, list(counts), speed))
        return fresh

    def _new_scalings(self, snapshot: Snapshot) -> list[tuple[int, float | None, int, list[float | None]]]:
        """A book hands out the same object for as long as it believes the same."""
        fresh: list[tuple[int, float | None, int, list[float | None]]] = []
        known, asked = self._scalings, snapshot.estimates.asked_scalings
        serials = snapshot.jobs.serial[np.array(list(asked), np.intp)].tolist()
        scalings, told = list(asked.values()), list(map(known.get, serials))
        for place in list(compress(count(), map(is_not, scalings, told))):
            serial, scaling, before = serials[place], scalings[place], told[place]
            known[serial] = scaling
            if before is None or before.speeds != scaling.speeds or before.apart != scaling.apart:
                least = next((size for size, speed in enumerate(scaling.speeds) if speed), 0)
                speeds = [_number(speed) for speed in scaling.speeds[least:]]
                fresh.append((serial, _number(scaling.apart), least, speeds))
        return fresh

    def _new_on_types(self, snapshot: Snapshot) -> list[tuple[int, list[float | None], list[bool]]]:
        fresh: list[tuple[int, list[float | None], list[bool]]] = []
        for row, told in snapshot.estimates.asked_types.items():
            serial = snapshot.jobs.serial_of(row)
            if self._on_types.get(serial) != told:
                self._on_types[serial] = told
                fresh.append((serial, [_number(one) for one in told.seconds], list(told.measured)))
        return fresh

    def _beliefs(self, snapshot: Snapshot) -> list[Any]:
        """For every job whose beliefs may have changed since they were last read, if they were read in this cycle."""
        for sample in snapshot.samples:
            if sample.job in snapshot.jobs.row_of:
                self._stale.add(snapshot.jobs.serial_of(snapshot.jobs.row_of[sample.job]))
        if not snapshot.estimates.asked:
            return []
        beliefs = snapshot.estimates.beliefs
        wanted, self._stale = sorted(self._stale), set()
        if beliefs.rich:
            return self._written_beliefs.fresh(snapshot.jobs.serial, beliefs)
        left, at, burning = beliefs.left, beliefs.at, beliefs.burning
        return [
            [number, _number(left.item(row)), at.item(row), burning.item(row)]
            for number in wanted
            if (row := snapshot.jobs.row_of_serial(number)) is not None
        ]

    def _forget_stale(self, snapshot: Snapshot) -> None:
        """A policy that never asks must not make the list endless: jobs that are in the table no more leave it."""
        if len(self._stale) > MOST_STALE + 2 * snapshot.jobs.count:
            self._stale = {serial for serial in self._stale if snapshot.jobs.row_of_serial(serial) is not None}

    def _write(self, line: Line) -> None:
        for reader in self._readers:
            reader(line)
        if self._written:
            self._written -= 1
        elif not self._discard:
            self._file.append(self._encoded(line) + b"\n")

    def _encoded(self, line: Line) -> bytes:
        try:
            return self._encoder.encode(line)
        except UnicodeEncodeError:  # a lone surrogate in a text, which no file can hold
            return self._encoder.encode(writable(msgspec.to_builtins(line)))


def _change(snapshot: Snapshot, row: int) -> Change:
    jobs, flights = snapshot.jobs, snapshot.flights
    now, placement = jobs.read(row), snapshot.placements.get(row)
    return Change(
        jobs.serial_of(row), now.state, now.since, now.attained, now.service,
        None if now.touched == -math.inf else now.touched,
        None if math.isnan(now.first_start) else now.first_start, now.saved, now.stops,
        None if placement is None else pack_placement(placement),
        _pack_flight(flights.get(row)) if flights else None,
    )  # fmt: skip


def _pack_flight(flight: Flight | None) -> tuple[list[Any] | None, float, float | None] | None:
    return None if flight is None else (pack_placement(flight.towards), flight.since, _number(flight.until))


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
