"""Folds finished jobs into a history, and scores the history on each job before it learns from that job.

So a score is always of a job that was not seen. Errors are |log(told / true)|: 0.1 means about ten percent off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from headway.core.job import Job
from headway.core.snapshot import Snapshot
from headway.estimates.history.history import History
from headway.estimates.history.lengths import Lengths
from headway.estimates.progress import ProgressBook
from headway.estimates.speed.model import Setting

ALL = ("all",)


@dataclass(slots=True)
class Folding:
    """A history that grows job by job."""

    history: History = History()
    jobs: int = 0
    told: list[float] = field(default_factory=list)
    """Errors of how long jobs were expected to train, by the most alike jobs."""
    plain: list[float] = field(default_factory=list)
    """The same by the median of all jobs, for comparison."""
    until: float = -math.inf
    """The time of the last snapshot that was folded in."""

    def run(self, past: Iterable[Snapshot], since: float = -math.inf) -> None:
        """Folds in the jobs of one run that finished after `since`. Jobs that did not finish teach nothing."""
        book, cycle, self.until = ProgressBook(history=self.history, since=since), -1, since
        for snapshot in past:
            jobs = snapshot.jobs
            if snapshot.cycle <= cycle:  # the run was ended and goes on: it counts anew
                book = ProgressBook(history=book.history, since=self.until)
            for row in snapshot.changed:
                if book.teaches(snapshot, row):
                    self._score(book.history, jobs.job(row), jobs.value(row, "attained"))
            book, cycle, self.until = book.fold(snapshot), snapshot.cycle, max(self.until, snapshot.now)
        self.history = book.history

    def trace(self, jobs: Iterable[tuple[Job, float]]) -> None:
        """Folds in jobs of which only the training time at the requested size is known."""
        for job, seconds in jobs:
            self._score(self.history, job, seconds)
            asked = Setting.sized(job, tuple(role.replicas for role in job.roles))
            self.history = self.history.learn(job, None, asked, seconds)

    def scores(self) -> dict[str, float | int | None]:
        """Medians over the jobs for which the history had an answer."""
        return {
            "jobs": self.jobs,
            "told": len(self.told),
            "error of like jobs": round(median(self.told), 4) if self.told else None,
            "error of all jobs' median": round(median(self.plain), 4) if self.plain else None,
            **{f"explained by {name}": round(one.share, 4) for name, one in self.history.durations.explained.items()},
        }

    def _score(self, history: History, job: Job, seconds: float) -> None:
        self.jobs += 1
        like = history.durations.told(job)
        if like is None or not seconds > 0:
            return
        everyone = history.durations.histograms.get(ALL)
        self.told.append(_error(like, seconds))
        self.plain.append(_error(everyone.lengths, seconds) if everyone is not None else self.told[-1])


def _error(told: Lengths, seconds: float) -> float:
    return abs(math.log(max(1.0, told.quantile(0.5)) / max(1.0, seconds)))
