"""A workload as every adapter and generator yields it: jobs, and what is known about them beside what users declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.workload.errors import WorkloadError
from headway.workload.jobsfile import SimulateFields

Expectation = tuple[tuple[float, float], ...]
"""Seconds after submission, and what finishing by then is worth; the earliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    name: str
    jobs: tuple[Job, ...]
    """In order of submission; where times are equal, in the file's order."""
    nodes: tuple[Node, ...] = ()
    """Empty where the trace leaves the cluster to the command."""
    truth: Mapping[JobId, float] | None = None
    """True seconds at the asked-for size, where they differ from the declared ones; jobs left out are as declared."""
    seconds_on: Mapping[JobId, Mapping[str, float]] = field(default_factory=dict)
    """True seconds per accelerator type, where the trace measured several."""
    expectations: Mapping[JobId, Expectation] = field(default_factory=dict)
    """For jobs whose value falls in steps; `Job.deadline` is the first of them."""
    simulate: SimulateFields = field(default_factory=SimulateFields)
    notes: tuple[str, ...] = ()
    """Sentences on what was dropped, rounded or assumed."""

    def work(self, job: Job) -> float | None:
        """True seconds at the asked-for size; this is what a simulated world needs to know."""
        return job.seconds if self.truth is None else self.truth.get(job.id, job.seconds)


def compress(trace: Trace, by: float) -> Trace:
    """The same jobs, submitted `by` times as fast. Deadlines keep their distance from the submission."""
    if not by > 0:
        raise WorkloadError(f"submit times cannot be divided by {by:g}: it must be above zero")
    return replace(trace, jobs=tuple(_moved(job, job.submit / by) for job in trace.jobs))


def rebase(trace: Trace) -> Trace:
    """The same jobs, the first one submitted at second 0."""
    first = trace.jobs[0].submit if trace.jobs else 0.0
    return replace(trace, jobs=tuple(_moved(job, job.submit - first) for job in trace.jobs))


def head(trace: Trace, count: int) -> Trace:
    """The first jobs only."""
    return replace(trace, jobs=trace.jobs[:count])


def rigid(trace: Trace) -> Trace:
    """The same jobs at the size they ask for and no other: for baselines that know no elasticity."""
    return _resized(trace, lambda role: replace(role, least=role.replicas, most=role.replicas))


def elastic(trace: Trace, most: int, least: int = 1) -> Trace:
    """The same jobs, whose workers may be as many as from `least` to `most`; what they ask for stays."""

    def stretched(role: Role) -> Role:
        if role.name == "ps":
            return role
        return replace(role, least=min(least, role.replicas), most=max(most, role.replicas))

    return _resized(trace, stretched)


def _resized(trace: Trace, change: Callable[[Role], Role]) -> Trace:
    """Jobs that share their roles go on sharing them."""
    known: dict[tuple[Role, ...], tuple[Role, ...]] = {}
    for job in trace.jobs:
        if job.roles not in known:
            known[job.roles] = tuple(change(role) for role in job.roles)
    return replace(trace, jobs=tuple(replace(job, roles=known[job.roles]) for job in trace.jobs))


def _moved(job: Job, submit: float) -> Job:
    deadline = None if job.deadline is None else submit + (job.deadline - job.submit)
    return replace(job, submit=submit, deadline=deadline)
