"""What an earlier run left behind in its log, and how the jobs of a file go on from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from headway.core.job import Job, JobId
from headway.core.plan import Plan
from headway.core.states import OVER, TRAINING, State
from headway.record.lines import Change, CycleLine, End, Head, JobLine, pack_job, unpack_job, unpack_plan
from headway.record.log import read


@dataclass(slots=True)
class Left:
    """The state of a run on a real cluster when its log ended."""

    head: Head | None = None
    complete: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    last: dict[int, Change] = field(default_factory=dict)
    now: float = 0.0

    def newest(self) -> dict[JobId, int]:
        """Name to arrival number. A name that came again means its last arrival."""
        return {self.jobs[serial].id: serial for serial in sorted(self.last)}


def left_behind(path: Path) -> Left:
    """By arrival number: every job and its last change.

    A resumed run counts anew and begins with a cycle that has every job. Until that cycle, what was before it holds.
    """
    left, begun = Left(), Left()
    for line in read(path):
        match line:
            case Head():
                begun = Left(line)
                if not left.last:
                    left = begun
            case JobLine():
                begun.jobs[line.serial] = unpack_job(line.job)
            case CycleLine():
                left = begun
                left.now, left.complete = line.now, False
                for change in line.changed:
                    left.last[change.serial] = change
            case End() if left is begun:
                left.complete = line.unfinished == 0
    return left


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GoingOn:
    """The jobs of a file beside what an earlier run of it left."""

    restored: list[tuple[Job, Change]] = field(default_factory=list)
    """Every job of the log, in order of arrival, as it is now. One that has been replaced or removed is cancelled."""
    arriving: list[Job] = field(default_factory=list)
    """Jobs that the log does not have, or has as failed, cancelled or other."""
    finished: list[JobId] = field(default_factory=list)
    unfinished: list[JobId] = field(default_factory=list)
    again: list[JobId] = field(default_factory=list)
    """Failed or cancelled before; they go on from their checkpoints."""
    edited: list[JobId] = field(default_factory=list)
    """The file says something else of them, but they run the same; they go on from their checkpoints."""
    afresh: list[JobId] = field(default_factory=list)
    """They run something else than before."""
    new: list[JobId] = field(default_factory=list)
    removed: list[JobId] = field(default_factory=list)
    """Unfinished, and no longer in the file."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to run, and nothing to note in the log."""
        return not (self.arriving or self.unfinished or self.removed)


SavedAt = Callable[[JobId], float | None]
"""The time, on the run's clock, at which a job last wrote to its checkpoint folder."""


def go_on(left: Left, jobs: Sequence[Job], now: float, saved_at: SavedAt = lambda _: None) -> GoingOn:
    """Compares the jobs of the file with those of the log. The times of new jobs count from now."""
    going, newest, wanted = GoingOn(), left.newest(), {job.id: job for job in jobs}
    for job in jobs:
        serial = newest.get(job.id)
        kind = _kind(job, left.jobs[serial], State(left.last[serial].state)) if serial is not None else "new"
        getattr(going, kind).append(job.id)
        if kind not in ("finished", "unfinished"):
            to_come = kind == "new" and not left.complete and job.submit > left.now
            going.arriving.append(job if not left.last or to_come else _later(job, now))
    for serial, change in sorted(left.last.items()):
        job = left.jobs[serial]
        if State(change.state) in OVER:
            going.restored.append((job, change))
        elif newest[job.id] == serial and job.id in going.unfinished:
            same = replace(wanted[job.id], submit=job.submit, deadline=job.deadline)
            going.restored.append((same, _interrupted(change, State.WAITING, left.now, now, saved_at(job.id))))
        else:
            going.restored.append((job, _interrupted(change, State.CANCELLED, left.now, now, saved_at(job.id))))
            if job.id not in wanted:
                going.removed.append(job.id)
    return going


def runs_the_same(one: Job, other: Job) -> bool:
    """Whether a checkpoint of one is a checkpoint of the other: the same roles with the same commands and env."""
    parts = [[(role.name, role.command, role.env) for role in _as_logged(job).roles] for job in (one, other)]
    return parts[0] == parts[1]


def _kind(job: Job, old: Job, state: State) -> str:
    """The list of `GoingOn` that it belongs to."""
    if not runs_the_same(job, old):
        return "afresh"
    if state in OVER:
        return "finished" if state is State.FINISHED else "again"
    return "unfinished" if _timeless(job) == _timeless(old) else "edited"


def _as_logged(job: Job) -> Job:
    """The job as a log gives it back."""
    try:
        return unpack_job(msgspec.json.decode(msgspec.json.encode(dict(pack_job(job)))))
    except UnicodeEncodeError:  # a lone surrogate in a text
        return job


def _timeless(job: Job) -> Job:
    """With its deadline counted from its submission; the submission may have been shifted."""
    deadline = None if job.deadline is None else round(job.deadline - job.submit, 3)
    return replace(_as_logged(job), submit=0.0, deadline=deadline)


def _later(job: Job, now: float) -> Job:
    return replace(job, submit=job.submit + now, deadline=None if job.deadline is None else job.deadline + now)


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
