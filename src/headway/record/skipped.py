"""Cycles that a log has no room for, folded into the next one that it can take.

While a disk is full, lines are kept in memory. That must end somewhere: beyond a limit a cycle is not kept as a line;
only what it said last of each job is. Nothing is begun meanwhile, so the cycle that is written next tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headway.core.check import Refusal
from headway.core.job import JobId
from headway.core.jobs.view import Jobs
from headway.core.plan import Plan
from headway.core.snapshot import Sample, Snapshot
from headway.record.lines import Change

SPARE = 1000


class LoggedCycle(NamedTuple):
    """What a log has of one cycle."""

    snapshot: Snapshot
    plan: Plan
    refusals: tuple[Refusal, ...] = ()


class SkippedCycles:
    """What is kept of them grows with the jobs in the table, not with time."""

    def __init__(self) -> None:
        self.count = 0
        """Since the log began."""
        self._last: LoggedCycle | None = None
        """The newest of those that no written cycle has taken in yet."""
        self._serials: dict[int, None] = {}
        self._samples: dict[JobId, Sample] = {}
        self._notes: dict[JobId, str] = {}
        self._ended: dict[int, Change] = {}
        """How jobs ended, by arrival number: they may leave the table before there is room."""

    def add(self, cycle: LoggedCycle, ended: Iterable[Change] = ()) -> None:
        self.count += 1
        self._ended.update((change.serial, change) for change in ended)
        self._last, snapshot = cycle, cycle.snapshot
        self._serials.update(dict.fromkeys(map(snapshot.jobs.serial_of, snapshot.changed)))
        self._samples.update((sample.job, sample) for sample in snapshot.samples)
        self._notes.update(snapshot.notes)
        if len(self._serials) + len(self._samples) + len(self._notes) > 3 * snapshot.jobs.count + SPARE:
            self._forget_gone(snapshot)

    def _forget_gone(self, snapshot: Snapshot) -> None:
        jobs = snapshot.jobs
        self._serials = {serial: None for serial in self._serials if jobs.row_of_serial(serial) is not None}
        self._samples = {job: sample for job, sample in self._samples.items() if job in jobs.row_of}
        self._notes = {job: note for job, note in self._notes.items() if job in jobs.row_of}

    def folded_into(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the skipped cycles said. They are forgotten."""
        if self._last is None:
            return snapshot
        rows = (snapshot.jobs.row_of_serial(serial) for serial in self._serials)
        changed = dict.fromkeys([*(row for row in rows if row is not None), *snapshot.changed])
        samples = {**self._samples, **{sample.job: sample for sample in snapshot.samples}}
        notes = {**self._notes, **dict(snapshot.notes)}
        self._last, self._serials, self._samples, self._notes = None, {}, {}, {}
        more = {"changed": tuple(changed), "samples": tuple(samples.values()), "notes": tuple(notes.items())}
        return Snapshot.of({**snapshot.__dict__, **more})

    def gone(self, jobs: Jobs) -> list[Change]:
        """How jobs ended that are not in the table any more. They are forgotten."""
        ended, self._ended = self._ended, {}
        return [change for serial, change in ended.items() if jobs.row_of_serial(serial) is None]

    def taken_back(self) -> LoggedCycle | None:
        """The last one with what those before it said: it is to be written after all."""
        last = self._last
        if last is None:
            return None
        self.count -= 1
        return last._replace(snapshot=self.folded_into(last.snapshot))
