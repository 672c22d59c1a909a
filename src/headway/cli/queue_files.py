"""The jobs files of a run and the jobs that were added to it: read at the start, and again whenever they change."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.local.added import added_jobs, again_asked, signature
from headway.local.editing import Wish
from headway.record.differences import submitted_at
from headway.workload.deadlines import impossible_deadlines
from headway.workload.jobsfile import JobsFile, load_all

LOOK_SECONDS = 0.5
"""How often the files are looked at. One that changed is read when it was the same twice: editors write in parts."""
Signature = tuple[object, ...]


class QueueFiles:
    """What the user wants to run. A mistake in a changed file is told, and what was wanted before stays."""

    def __init__(self, files: Sequence[Path], folder: Path, *, with_added: bool = True) -> None:
        self.say: Callable[[str], None] = lambda _: None
        self.check: Callable[[QueueFiles], None] = lambda _: None
        """Raises UserError where a job cannot be taken in."""
        self._files, self._folder = files, folder
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
        if found != self._settling and not at_once:
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
        if self._again != (stamp := again_asked(self._folder)):
            self._again = stamp
            again.update(job.id for job in self.workload.jobs)
        return Wish(self.workload.jobs, again)

    def _read(self, *, with_added: bool) -> JobsFile:
        workload = load_all(self._files)
        added = added_jobs(self._folder) if with_added else {}
        self._asked = {job: one.asked for job, (one, _) in added.items()}
        self._origin = {job: one.file for job, (one, _) in added.items()}
        if not added:
            return workload
        jobs = [job for job in workload.jobs if job.id not in added] + [job for _, job in added.values()]
        return replace(workload, jobs=tuple(sorted(jobs, key=lambda job: job.submit)))

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
        for sentence in impossible_deadlines(job for job in now.values() if then.get(job.id) != job):
            self.say(f"warning: {sentence}")
        if before.nodes != self.workload.nodes:
            self.say(f"{name}: field nodes: other nodes count from the next start")
            self.workload = replace(self.workload, nodes=before.nodes)

    def _signature(self) -> Signature:
        return (*map(_stamp, self._files), signature(self._folder))


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
