"""`status.json` in the state folder of a run on this machine: how its jobs are, for commands of other terminals.

The run alone writes it, whole or not at all, twice a second at most and only if something has changed. The live page
is told at the same time.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import msgspec

from headway.beliefs.whole_file import write_whole
from headway.cli.machine.jobs_watch import QueueFiles
from headway.cli.machine.page_feed import PageFeed
from headway.cli.screen.clock_times import ClockTimes, LooksAhead
from headway.cli.screen.live_table import where
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.reason import Code, Reasons
from headway.core.snapshot import Snapshot
from headway.core.states import OVER, State
from headway.core.text import clean
from headway.cycle.loop import Decided
from headway.forecast.times import Range

WRITE_SECONDS = 0.5
REASON_SECONDS = 2.0
"""How often the reasons of all waiting jobs are told anew."""
KEPT_OVER = 200
"""Jobs that are over and still listed."""
REFUSED = "refused"
OVER_WORDS = frozenset({REFUSED, *(state.name.lower() for state in OVER)})
SUSPENDED = "suspended"
TO_COME = "to come"


class JobStatus(msgspec.Struct, omit_defaults=True):
    """One job. Times are seconds since 1970."""

    name: str
    state: str = "waiting"
    since: float = 0.0
    user: str = ""
    priority: int = 0
    submitted: float = 0.0
    started: float | None = None
    deadline: float | None = None
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    left: float | None = None
    """Seconds of training that are left, as believed."""
    starts: Range | None = None
    """When it starts, as foreseen: four outcomes of five are between the first and the last."""
    done: Range | None = None
    where: str = ""
    why: str = ""
    """Why it waits."""
    note: str = ""
    """What was told of it last."""

    @property
    def is_over(self) -> bool:
        return self.state in OVER_WORDS


class QueueStatus(msgspec.Struct):
    at: float = 0.0
    jobs: list[JobStatus] = []


def read_status(folder: Path) -> QueueStatus:
    """Empty where there is none."""
    path = folder / "status.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=QueueStatus)
    except FileNotFoundError:
        return QueueStatus()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return QueueStatus()


class StatusFile:
    def __init__(
        self, folder: Path, began: float, queue: QueueFiles, ahead: LooksAhead, page: PageFeed | None = None
    ) -> None:
        self._folder, self._began, self._queue, self._ahead, self._page = folder, began, queue, ahead, page
        self._jobs: dict[str, JobStatus] = {
            job.name: job for job in read_status(folder).jobs if job.is_over and job.state != REFUSED
        }
        self._written = self._reasoned = -math.inf
        self._dirty, self._reads = True, 0
        self._foreseen: ClockTimes | None = None

    def show(self, decided: Decided) -> None:
        """Takes over what has changed."""
        snapshot, now = decided.snapshot, time.monotonic()
        rows = {row for row in snapshot.changed if snapshot.jobs.row_of.get(snapshot.jobs.job(row).id) == row}
        all_reasons = now - self._reasoned >= REASON_SECONDS
        rows.update(int(row) for row in snapshot.placements)
        if all_reasons:
            self._reasoned = now
            rows.update(int(row) for row in snapshot.jobs.waiting())
        reasons = Reasons(snapshot, decided.plan)
        for row in sorted(rows):
            self._take(snapshot, row, reasons)
        for sample in snapshot.samples:
            job = self._jobs.get(sample.job)
            if job is not None:
                job.step, job.loss, job.steps = sample.step, sample.loss, sample.total_steps or job.steps
        for name, sentence in snapshot.notes:
            if name in self._jobs:
                self._jobs[name].note = clean(sentence)
        if self._page is not None:
            self._page.show(snapshot, self._began)
        self._ahead.look(snapshot)
        self._foresee()
        self._forget()
        self._dirty = True
        self.step()

    def _foresee(self) -> None:
        self._foreseen = self._ahead.newest
        for name, eta in () if self._foreseen is None else self._foreseen.etas():
            if name in self._jobs and not self._jobs[name].is_over:
                self._jobs[name].starts, self._jobs[name].done = eta

    def step(self) -> None:
        """Writes it, if that is due."""
        if self._ahead.newest is not self._foreseen:
            self._foresee()
            self._dirty = True
        if (self._dirty or self._reads != self._queue.reads) and time.monotonic() - self._written >= WRITE_SECONDS:
            self.close()

    def close(self) -> None:
        self._written, self._dirty, self._reads = time.monotonic(), False, self._queue.reads
        away = set(self._queue.suspended)
        shown = [
            msgspec.structs.replace(job, state=SUSPENDED) if JobId(job.name) in away and job.is_over else job
            for job in self._jobs.values()
        ]
        to_come = [job.id for job in self._queue.workload.jobs if job.id not in self._jobs]
        shown += [JobStatus(name, TO_COME) for name in to_come]
        shown += [JobStatus(name, REFUSED, at, note=why) for name, (at, why) in self._queue.refused.items()]
        shown += [JobStatus(name, SUSPENDED) for name in away if name not in self._jobs]
        status = QueueStatus(time.time(), shown)
        if self._page is not None:
            self._page.tell(status.at, shown)
        try:
            write_whole(self._folder / "status.json", msgspec.json.encode(status), private=True, synced=False)
        except UserError:  # a full disk: the next one may be written
            self._dirty = True

    def _take(self, snapshot: Snapshot, row: int, reasons: Reasons) -> None:
        jobs = snapshot.jobs
        job, state = jobs.job(row), jobs.state_of(row)
        before = self._jobs.get(job.id)
        if before is not None and before.is_over:
            self._jobs.pop(job.id)  # those that came last are last
        first, left = float(jobs.first_start[row]), snapshot.estimates.of(row, snapshot.now).left
        reason = reasons.of(job.id) if state is State.WAITING else None
        word = "starting" if reason and reason.code is Code.STARTS_NOW else state.name.lower()
        told = JobStatus(
            job.id, word, self._began + float(jobs.since[row]), job.user, job.priority,
            self._began + job.submit, None if math.isnan(first) else self._began + first,
            None if job.deadline is None else self._began + job.deadline, steps=job.steps,
            left=None if math.isnan(left) or state in OVER else left, where=where(snapshot, row),
            why=clean(reason.brief) if reason and word == "waiting" else "",
        )  # fmt: skip
        if before is not None:
            told.step, told.loss, told.note = before.step, before.loss, before.note
            told.steps = before.steps or told.steps
        self._jobs[job.id] = told

    def _forget(self) -> None:
        over = [name for name, job in self._jobs.items() if job.is_over]
        if len(over) > 2 * KEPT_OVER:
            for name in over[:-KEPT_OVER]:
                del self._jobs[name]
