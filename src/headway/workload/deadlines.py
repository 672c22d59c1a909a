"""Deadlines that cannot be met, told when jobs are submitted and later. No errors: a late job may be worth training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from headway.core.job import Can, Job
from headway.core.text import lasting

MOST_NAMED = 5
NO_PAUSES: Mapping[str, float] = MappingProxyType({})


def deadline_warnings(jobs: Iterable[Job], pauses: Mapping[str, float] = NO_PAUSES) -> list[str]:
    """A sentence for each job whose deadline is shorter than what it declares, even at its largest size, or for which
    the policy may make room too late. `pauses`: its settings for that, in seconds.
    """
    told, hasty = [], []
    for job in jobs:
        if why := _too_short(job):
            told.append(f"job {job.id!r}: field deadline: {why}; the job will be late")
        elif _is_within(job, pauses):
            hasty.append(job.id)
    if hasty:
        names, shorter = ", ".join(hasty[:MOST_NAMED]), " ".join(f"--set {name}=5" for name in pauses)
        more = f" and {len(hasty) - MOST_NAMED} more" if len(hasty) > MOST_NAMED else ""
        of = ", ".join(f"{name} {lasting(seconds)}" for name, seconds in pauses.items())
        told.append(
            f"field deadline of {names}{more}: where no room is free, the policy's own pauses ({of}) may make it late; "
            f"{shorter} makes room sooner"
        )
    return told


def late(job: Job, now: float, left: float = math.nan, replicas: int = 0) -> str:
    """Why an unfinished job misses its deadline; empty where it can meet it, or where nothing is known.

    `left`: seconds of training left with `replicas`, or with what it asks for where there are none.
    """
    if job.deadline is None:
        return ""
    if now >= job.deadline:
        return f"it was due {lasting(now - job.deadline)} ago: it is late"
    given = job.deadline - now
    grown = " at its max replicas" if (growth := _growth(job, replicas)) > 1.0 else ""
    if left / growth > given:  # never where `left` is NaN
        return (
            f"it is due in {lasting(given)} and has about {lasting(left / growth)} of training left{grown}: "
            f"it will be late by about {lasting(left / growth - given)}"
        )
    return ""


def _too_short(job: Job) -> str:
    if job.deadline is None:
        return ""
    given = job.deadline - job.submit
    if given <= 0:
        return "it is over when the job is submitted"
    if job.seconds is None or given >= (shortest := job.seconds / _growth(job)):
        return ""
    grown = f", or {lasting(shortest)} at its max replicas" if shortest < job.seconds else ""
    return f"{lasting(given)} is shorter than its declared {lasting(job.seconds)}{grown}"


def _is_within(job: Job, pauses: Mapping[str, float]) -> bool:
    if job.deadline is None:
        return False
    needs = 0.0 if job.seconds is None else job.seconds / _growth(job)
    return job.deadline - job.submit < sum(pauses.values()) + needs


def _growth(job: Job, replicas: int = 0) -> float:
    """How many times as fast it trains at most: as many times as a role can have more replicas than it has now."""
    if not job.can & (Can.SIZE | Can.SCALE):
        return 1.0
    if replicas:
        return max(1.0, sum(role.max for role in job.roles) / replicas)
    return max([1.0, *(role.max / role.replicas for role in job.roles if role.replicas)])
