"""A workload: jobs, and what is known about them beyond what users declare. All formats and the generator make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.workload.errors import WorkloadError
from headway.workload.simulate_fields import SimulateFields

Expectation = tuple[tuple[float, float], ...]
"""Seconds after submission, and the value of finishing by then; the earliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    name: str
    jobs: tuple[Job, ...]
    """In order of submission; at equal times, in the order of the file."""
    nodes: tuple[Node, ...] = ()
    """Empty if the trace has no nodes."""
    truth: Mapping[JobId, float] | None = None
    """True seconds at the requested size, if they differ from the declared ones; other jobs take the declared ones."""
    seconds_on: Mapping[JobId, Mapping[str, float]] = field(default_factory=dict)
    """True seconds per accelerator type, if the trace has them for several."""
    expectations: Mapping[JobId, Expectation] = field(default_factory=dict)
    """For jobs whose value falls in steps; `Job.deadline` is the first of them."""
    simulate: SimulateFields = field(default_factory=SimulateFields)
    notes: tuple[str, ...] = ()
    """Sentences on what the reader dropped, rounded or assumed."""

    def work(self, job: Job) -> float | None:
        """True seconds at the requested size, for the simulator."""
        return job.seconds if self.truth is None else self.truth.get(job.id, job.seconds)


def compress(trace: Trace, by: float) -> Trace:
    """The same jobs, submitted `by` times as fast. Deadlines keep their distance from the submission."""
    if not by > 0:
        raise WorkloadError(f"submit times cannot be divided by {by:g}: give a number above 0")
    return replace(trace, jobs=tuple(_moved(job, job.submit / by) for job in trace.jobs))


def rebase(trace: Trace) -> Trace:
    """The same jobs, the first one submitted at second 0."""
    first = trace.jobs[0].submit if trace.jobs else 0.0
    return replace(trace, jobs=tuple(_moved(job, job.submit - first) for job in trace.jobs))


def head(trace: Trace, count: int) -> Trace:
    """The first jobs only."""
    return replace(trace, jobs=trace.jobs[:count])


def since(trace: Trace, seconds: float) -> Trace:
    """Without the jobs submitted before. The others keep their times."""
    return replace(trace, jobs=tuple(job for job in trace.jobs if job.submit >= seconds))


def rigid(trace: Trace) -> Trace:
    """The same jobs with a fixed size, the requested one: for baselines without elasticity."""
    return _resized(trace, lambda role: replace(role, min=role.replicas, max=role.replicas))


def elastic(trace: Trace, most: int, least: int = 1) -> Trace:
    """The same jobs, with `least` to `most` workers; the requested number stays."""

    def stretched(role: Role) -> Role:
        if role.name == "ps":
            return role
        return replace(role, min=min(least, role.replicas), max=max(most, role.replicas))

    return _resized(trace, stretched)


def _resized(trace: Trace, change: Callable[[Role], Role]) -> Trace:
    """Changes every role. Jobs that share roles still share them."""
    known: dict[tuple[Role, ...], tuple[Role, ...]] = {}
    for job in trace.jobs:
        if job.roles not in known:
            known[job.roles] = tuple(change(role) for role in job.roles)
    return replace(trace, jobs=tuple(replace(job, roles=known[job.roles]) for job in trace.jobs))


def _moved(job: Job, submit: float) -> Job:
    deadline = None if job.deadline is None else submit + (job.deadline - job.submit)
    return replace(job, submit=submit, deadline=deadline)
