"""The jobs files of a run and the jobs that were added to it: read at the start, and again whenever they change."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.states import State
from headway.local.added import added_job, added_jobs, again_asked, signature, take_out
from headway.local.editing import Wish
from headway.record.differences import submitted_at
from headway.record.resume import Left
from headway.workload.deadlines import deadline_warnings
from headway.workload.jobsfile import JobsFile, load_all
from headway.workload.simulate_fields import SimulateFields

QUEUE = "queue"
"""In place of a jobs file: the queue of this user, which has added jobs only."""
LOOK_SECONDS = 0.5
"""How often the files are looked at. A jobs file is read when it was the same twice: editors write in parts."""
Signature = tuple[object, ...]


class QueueFiles:
    """What the user wants to run. A mistake in a changed file is told, and what was wanted before stays."""

    def __init__(self, files: Sequence[Path], folder: Path, *, with_added: bool = True) -> None:
        self.say: Callable[[str], None] = lambda _: None
        self.check: Callable[[QueueFiles], None] = lambda _: None
        """Raises UserError where a job cannot be taken in."""
        self.pauses: Mapping[str, float] = {}
        """Those of the policy, by setting, in seconds."""
        self.folder = folder
        self.suspended: list[JobId] = []
        """Added jobs that are not wanted for now."""
        self.refused: dict[JobId, tuple[float, str]] = {}
        """Of a queue without jobs files: added jobs that cannot run here, since when, and why. The others go on."""
        self.reads = 0
        """How often the files were read."""
        self._files = files
        self._look_at = 0.0
        self._seen = self._settling = self._signature()
        self._asked: dict[JobId, int] = {}
        self._again = again_asked(folder)
        self._origin: dict[JobId, str] = {}
        self.workload = self._read(with_added=with_added)

    def by_file(self) -> Iterator[tuple[str, list[Job]]]:
        """The jobs with the file that each was written in."""
        origins = [self._origin.get(job.id, str(self.workload.path)) for job in self.workload.jobs]
        for origin in dict.fromkeys(origins):
            yield origin, [job for job, its in zip(self.workload.jobs, origins, strict=True) if its == origin]

    def gone_on_with(self, began: float, ended: float) -> list[Job]:
        """The jobs for a run that goes on: it began and ended at these times, the latter on its own clock.

        The times of a job that was added to it count from when it was added, also where it has not come yet.
        """
        jobs = []
        for job in self.workload.jobs:
            added = self._asked[job.id] / 1e9 - began if job.id in self._asked else 0.0
            still_to_come = 0.0 < added <= ended < added + job.submit
            jobs.append(submitted_at(job, added) if still_to_come else job)
        return jobs

    def newer(self, at_once: bool) -> Wish | None:
        """What is wanted now, if the files have changed and are sound."""
        now = time.monotonic()
        if now < self._look_at and not at_once:
            return None
        self._look_at = now + LOOK_SECONDS
        found = self._signature()
        if found == self._seen:
            self._settling = found
            return None
        if found[:-1] not in (self._seen[:-1], self._settling[:-1]) and not at_once:
            self._settling = found
            return None
        self._seen = self._settling = found
        return self._taken()

    def _taken(self) -> Wish | None:
        before, asked, origin = self.workload, self._asked, self._origin
        try:
            self.workload = self._read(with_added=True)
            self.check(self)
        except UserError as error:
            self.workload, self._asked, self._origin = before, asked, origin
            self.say(f"{error}; the jobs stay as they were")
            return None
        self._tell(before)
        again = {job for job, when in self._asked.items() if asked.get(job) != when}
        if self._again != (stamp := again_asked(self.folder)):
            self._again = stamp
            again.update(job.id for job in self.workload.jobs)
        return Wish(self.workload.jobs, again)

    def _read(self, *, with_added: bool) -> JobsFile:
        workload = load_all(self._files) if self._files else JobsFile(Path(QUEUE), (), (), SimulateFields())
        self.reads += 1
        damaged: dict[JobId, str] = {}
        there = added_jobs(self.folder, None if self._files else damaged) if with_added else {}
        before, self.refused = self.refused, {}
        for job, why in damaged.items():
            self.refused[job] = before.get(job, (time.time(), why))
        self.suspended = [job for job, (one, _) in there.items() if one.suspended]
        added = {job: both for job, both in there.items() if not both[0].suspended}
        self._asked = {job: one.asked for job, (one, _) in added.items()}
        self._origin = {job: one.file for job, (one, _) in added.items()}
        if not there:
            return workload
        own = [job for job in workload.jobs if job.id not in there]
        jobs = own + [job for _, job in sorted(added.values(), key=lambda both: both[0].asked)]
        return replace(workload, jobs=tuple(sorted(jobs, key=lambda job: job.submit)))

    def check_each(self, check: Callable[[str, list[Job]], None]) -> None:
        """Checks the jobs of each file. A jobs file must be sound as a whole; a queue refuses only what is wrong."""
        for where, jobs in list(self.by_file()):
            for together in [jobs] if self._files else [[job] for job in jobs]:
                try:
                    check(where, together)
                except UserError as error:
                    if self._files:
                        raise
                    self._refuse(together[0].id, str(error))

    def _refuse(self, job: JobId, why: str) -> None:
        self.refused[job] = (time.time(), why)
        self.workload = replace(self.workload, jobs=tuple(one for one in self.workload.jobs if one.id != job))
        self.say(f"{job} is refused: {why}")

    def put_away(self, jobs: Iterable[JobId]) -> None:
        """Takes added jobs that are over out of the queue. One stays whose file meanwhile has something else to run."""
        known, gone = {job.id: job for job in self.workload.jobs}, set()
        for job in jobs:
            there = added_job(self.folder, job) if job in known else None
            if there is not None and there.roles == known[job].roles:
                with suppress(UserError):  # a full disk: the next start puts it away
                    take_out(self.folder, job)
                    gone.add(job)
        if gone:
            left = tuple(job for job in self.workload.jobs if job.id not in gone)
            self.workload = replace(self.workload, jobs=left)

    def over_before(self, left: Left, began: float) -> list[JobId]:
        """Added jobs that were over at the end of an earlier run, and were not added again since."""
        over = []
        for job, serial in left.newest().items():
            change = left.last[serial]
            ended = State(change.state) in (State.FINISHED, State.FAILED) and began + change.since
            if ended and self._asked.get(job, 0) / 1e9 < ended:
                over.append(job)
        return over

    def _tell(self, before: JobsFile) -> None:
        name, now = self.workload.path.name, {job.id: job for job in self.workload.jobs}
        then = {job.id: job for job in before.jobs}
        parts = {
            "new": [job for job in now if job not in then],
            "edited": [job for job in now if job in then and now[job] != then[job]],
            "removed": [job for job in then if job not in now],
        }
        told = "; ".join(f"{word}: {some(jobs)}" for word, jobs in parts.items() if jobs)
        if told:
            self.say(f"{name}: {told}")
        for sentence in deadline_warnings((job for job in now.values() if then.get(job.id) != job), self.pauses):
            self.say(f"warning: {sentence}")
        if before.nodes != self.workload.nodes:
            self.say(f"{name}: field nodes: other nodes count from the next start")
            self.workload = replace(self.workload, nodes=before.nodes)

    def _signature(self) -> Signature:
        return (*map(_stamp, self._files), signature(self.folder))


def some(jobs: Sequence[JobId]) -> str:
    """Their names, the first seven where there are many."""
    return ", ".join(jobs) if len(jobs) <= 8 else f"{', '.join(jobs[:7])} and {len(jobs) - 7} more"


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):  # a pipe can be read once
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
