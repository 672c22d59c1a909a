"""Deadlines that cannot be met, told when jobs are submitted. They are warnings: a late job may be worth training."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.job import Can, Job

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def impossible_deadlines(jobs: Iterable[Job]) -> list[str]:
    """A sentence for each job whose deadline is shorter than what it declares, even at its largest size."""
    return [sentence for job in jobs if (sentence := _told(job))]


def _told(job: Job) -> str:
    if job.deadline is None:
        return ""
    given = job.deadline - job.submit
    if given <= 0:
        return f"job {job.id!r}: field deadline: it is over when the job is submitted; the job will be late"
    if job.seconds is None or given >= (shortest := job.seconds / _growth(job)):
        return ""
    grown = f", or {_shown(shortest)} at its max replicas" if shortest < job.seconds else ""
    return (
        f"job {job.id!r}: field deadline: {_shown(given)} is shorter than its declared {_shown(job.seconds)}{grown}; "
        "the job will be late"
    )


def _growth(job: Job) -> float:
    """How many times as fast it trains at most: as many times as a role can have more replicas than it requests."""
    if not job.can & (Can.SIZE | Can.SCALE):
        return 1.0
    return max([1.0, *(role.most / role.replicas for role in job.roles if role.replicas)])


def _shown(seconds: float) -> str:
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"
