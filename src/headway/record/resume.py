"""What an earlier run left behind in its log, and how the jobs of a file go on from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from headway.core.gang import StepsSeen
from headway.core.job import Job, JobId
from headway.core.plan import Plan
from headway.core.restarts import retry_told
from headway.core.states import OVER, TRAINING, State
from headway.record.differences import Differences, as_edited, differences, submitted_at
from headway.record.lines import Change, CycleLine, End, Head, JobLine, unpack_job, unpack_plan, unpack_sample
from headway.record.log import read


@dataclass(slots=True)
class Left:
    """The state of a run on a real cluster when its log ended."""

    head: Head | None = None
    complete: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    last: dict[int, Change] = field(default_factory=dict)
    now: float = 0.0
    reached: dict[JobId, StepsSeen] = field(default_factory=dict)
    """How far each job had come, by its reports."""
    failures: dict[JobId, int] = field(default_factory=dict)
    """How often an unfinished job has failed and was tried again."""

    def newest(self) -> dict[JobId, int]:
        """Name to arrival number. A name that came again means its last arrival."""
        return {self.jobs[serial].id: serial for serial in sorted(self.last)}

    def take(self, line: CycleLine) -> None:
        self.now, self.complete = line.now, False
        for packed in line.samples:
            sample = unpack_sample(packed)
            seen = self.reached.get(sample.job, StepsSeen())
            self.reached[sample.job] = seen.reported(sample.step, sample.at)
        for change in line.changed:
            self.last[change.serial] = change
            job_id = self.jobs[change.serial].id
            if State(change.state) in OVER:
                self.failures.pop(job_id, None)
            if State(change.state) in _STOPPED and job_id in self.reached:
                self.reached[job_id] = self.reached[job_id].stopped()
        for name, note in line.notes:
            if retry := retry_told(note):
                self.failures[JobId(name)] = retry


_STOPPED = OVER | {State.WAITING, State.STARTING}


def left_behind(path: Path) -> Left:
    """By arrival number: every job and its last change.

    A resumed run counts anew and begins with a cycle that has every job. Until that cycle, what was before it holds.
    """
    left, begun = Left(), Left()
    for line in read(path):
        match line:
            case Head():
                begun = Left(line, reached=left.reached, failures=left.failures)
                if not left.last:
                    left = begun
            case JobLine():
                begun.jobs[line.serial] = unpack_job(line.job)
            case CycleLine():
                left = begun
                left.take(line)
            case End() if left is begun:
                left.complete = line.unfinished == 0
    return left


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GoingOn:
    """The jobs of a file beside what an earlier run of it left."""

    found: Differences
    restored: list[tuple[Job, Change]] = field(default_factory=list)
    """Every job of the log, in order of arrival, as it is now. One that has been replaced or removed is cancelled."""
    arriving: list[Job] = field(default_factory=list)
    """Jobs that the log does not have, or has as failed, cancelled or other."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to run, and nothing to note in the log."""
        found = self.found
        return not (self.arriving or found.unfinished or found.edited or found.other_arguments or found.removed)


SavedAt = Callable[[JobId], float | None]
"""The time, on the run's clock, at which a job last wrote to its checkpoint folder."""


def go_on(left: Left, jobs: Sequence[Job], now: float, saved_at: SavedAt = lambda _: None, key: bytes = b"") -> GoingOn:
    """Compares the jobs of the file with those of the log. The times of new jobs count from now."""
    newest, wanted = left.newest(), {job.id: job for job in jobs}
    known = {job_id: (left.jobs[serial], State(left.last[serial].state)) for job_id, serial in newest.items()}
    going = GoingOn(differences(known, jobs, key))
    lasting = {job_id for job_id in going.found.other_arguments if known[job_id][1] not in OVER}
    stays = {*going.found.unfinished, *going.found.edited, *lasting}
    for job in jobs:
        if job.id not in stays and job.id not in going.found.finished:
            to_come = job.id not in newest and not left.complete and job.submit > left.now
            going.arriving.append(job if not left.last or to_come else submitted_at(job, now))
    for serial, change in sorted(left.last.items()):
        job = left.jobs[serial]
        if State(change.state) in OVER:
            going.restored.append((job, change))
            continue
        on = newest[job.id] == serial and job.id in stays
        state = State.WAITING if on else State.CANCELLED
        interrupted = _interrupted(change, state, left.now, now, saved_at(job.id))
        going.restored.append((as_edited(wanted[job.id], job) if on else job, interrupted))
    return going


def _interrupted(change: Change, state: State, ended: float, now: float, saved_at: float | None) -> Change:
    """The job's row after its processes are gone. What it trained since its last checkpoint is lost."""
    old = State(change.state)
    if old is State.WAITING:
        return change if state is State.WAITING else msgspec.structs.replace(change, state=state, since=now)
    saved = change.saved
    if saved_at is not None:
        since = change.since if old in TRAINING else max(change.since, saved_at)
        saved = max(saved, change.attained + min(saved_at, now) - since)
        ended = min(max(ended, saved_at), now)
    return msgspec.structs.replace(
        change, state=state, since=max(ended, change.since), attained=saved, saved=saved, stops=change.stops + 1,
        placement=None, flight=None,
    )  # fmt: skip


# ── virtual time ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Interrupted:
    """How far an interrupted run came. Empty if there is none."""

    plans: tuple[Plan, ...] = ()
    lines: int = 0


def interrupted(path: Path | None, head: Head) -> Interrupted:
    """What an unfinished log of the same run has; nothing if the log is of another run or is complete."""
    if path is None or not path.exists():
        return Interrupted()
    plans: list[Plan] = []
    lines = 0
    for line in read(path):
        lines += 1
        match line:
            case Head() if lines > 1 or line != head:
                return Interrupted()
            case CycleLine():
                plans.append(unpack_plan(line))
            case End():
                return Interrupted()
    return Interrupted(tuple(plans), lines)
