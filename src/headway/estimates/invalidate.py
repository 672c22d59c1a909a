"""Which jobs are believed to be otherwise after a job has finished: those that it taught something about.

Example: a job of `bert` has finished, which ran at two sizes. How `bert` scales is now believed to be otherwise, so the
scaling of every job of that model is. But the time left of a job that reports from where it is rests on its own pace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from headway.core.job import Job, JobId
from headway.core.snapshot import Snapshot
from headway.core.states import TRAINING
from headway.estimates.history.by_user import ModelHistory
from headway.estimates.history.history import History
from headway.estimates.history.lessons import ModelForm, ModelKey
from headway.estimates.job.track import Track
from headway.estimates.speed.accelerators import types_of
from headway.estimates.speed.model import Form


class Taught(NamedTuple):
    """Rows about which something else is believed."""

    times: list[int]
    scalings: list[int]


def taught_by(
    job: Job, snapshot: Snapshot, tracks: Mapping[JobId, Track], before: History, after: History
) -> Taught:  # fmt: skip
    """What the end of this job changed. `before` and `after`: what was known of like jobs."""
    jobs, over = snapshot.jobs.jobs[: snapshot.jobs.count], snapshot.jobs.over()
    alike = [row for row, other in enumerate(jobs) if other.model == job.model and not over[row]] if job.model else []
    if before.reliability(job).broken != after.reliability(job).broken:
        of_user = [row for row, other in enumerate(jobs) if other.user == job.user and not over[row]]
        return Taught(sorted({*alike, *of_user}), sorted({*alike, *of_user}))
    types = types_of(snapshot.nodes)
    same = before.kind(job) is not None and _told(before, job, types) == _told(after, job, types)
    return Taught([row for row in alike if _leans_on_others(snapshot, row, tracks)], [] if same else alike)


def of_models(snapshot: Snapshot, models: Collection[str]) -> list[int]:
    """The jobs of these models that are not over: lessons of running jobs change their scalings, and nothing else."""
    jobs, over = snapshot.jobs.jobs[: snapshot.jobs.count], snapshot.jobs.over()
    return [row for row, job in enumerate(jobs) if job.model in models and not over[row]]


def _told(history: History, job: Job, types: Sequence[str]) -> list[object]:
    """All that a history says of how the job's model scales: what finished jobs have shown, and lessons."""
    model: ModelForm = (job.model, Form.of(job))
    keys: list[ModelKey] = [model, *((*model, on) for on in types)]
    finished = [_scaling(history.finished(key)) for key in keys]
    return [*finished, *(history.lessons.given.get(key) for key in keys)]


def _scaling(kind: ModelHistory | None) -> object:
    """What a kind says of how a model scales, and by whom it was shown."""
    if kind is None:
        return None
    users = {user: (one.weight, one.across, one.coefficients) for user, one in kind.users.items()}
    return kind.weight, kind.across, kind.coefficients, users


def _leans_on_others(snapshot: Snapshot, row: int, tracks: Mapping[JobId, Track]) -> bool:
    """Whether what like jobs showed is part of the time left by its own reports: where its pace is not measured."""
    job = snapshot.jobs.job(row)
    track = tracks.get(job.id)
    if track is None:
        return False
    if job.target is not None or snapshot.jobs.value(row, "state") not in TRAINING or track.guess() is None:
        return True
    placement = snapshot.placements.get(row)
    return placement is not None and placement is not track.placement
