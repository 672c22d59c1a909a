"""The book that believes the user, and the way in which every book writes into a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.core.estimates import Beliefs, Counts, Estimates
from headway.core.job import Job
from headway.core.snapshot import Snapshot
from headway.estimates.models.scaling import plain_speed


@dataclass(frozen=True, slots=True)
class Declared:
    def fold(self, snapshot: Snapshot) -> Declared:  # noqa: ARG002  what was declared does not change
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return annotated(snapshot, lambda: declared_beliefs(snapshot))


def annotated(
    snapshot: Snapshot, source: Callable[[], Beliefs], speed: Callable[[Job, Counts], float] = plain_speed
) -> Snapshot:
    jobs = snapshot.jobs
    return snapshot.with_estimates(Estimates(source, lambda row, counts: speed(jobs.job(row), counts)))


def declared_beliefs(snapshot: Snapshot) -> Beliefs:
    jobs = snapshot.jobs
    return Beliefs(jobs.declared - jobs.attained, jobs.since, jobs.training())
