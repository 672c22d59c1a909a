"""Everything a policy may know, at one moment. Immutable, so that the same snapshot always gives the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.core.estimates import Estimates
from headway.core.job import Job, JobId
from headway.core.jobs.view import Jobs
from headway.core.node import IntArray, Nodes
from headway.core.placement import Placement
from headway.core.states import State


class Flight(NamedTuple):
    """Something begun whose end is not yet seen. What it is, the job's state tells."""

    towards: Placement | None
    """Where the job will be when it ends; None for a stop."""
    since: float
    until: float
    """When it is given up."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A training script's own word on how far it is."""

    job: JobId
    at: float
    step: int
    loss: float | None = None
    total_steps: int | None = None
    metric: float | None = None
    """What the job's target is about, where it has one and told it."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Has no slots, because a frozen class with them is filled three times as slowly; there is one in every cycle."""

    now: float
    cycle: int
    nodes: Nodes
    free: IntArray
    """(kinds, nodes): capacity less everything held, both ends of a move included."""
    jobs: Jobs
    placements: Mapping[int, Placement]
    """By row: where the jobs are that are up."""
    flights: Mapping[int, Flight]
    used_cpu: Mapping[int, float] = field(default_factory=dict)
    """By row: cores truly used by all replicas together, as last measured."""
    samples: tuple[Sample, ...] = ()
    """Since the snapshot before."""
    changed: tuple[int, ...] = ()
    """Rows that changed since the snapshot before."""
    notes: tuple[tuple[JobId, str], ...] = ()
    """Since the snapshot before: what a cluster has to say of a job that no column tells, in a sentence each."""
    estimates: Estimates = field(default_factory=Estimates)

    @classmethod
    def of(cls, fields: dict[str, object]) -> Snapshot:
        """The same as calling the class with all fields, and faster."""
        snapshot = object.__new__(cls)
        snapshot.__dict__.update(fields)
        return snapshot

    def with_estimates(self, estimates: Estimates) -> Snapshot:
        snapshot = object.__new__(Snapshot)
        snapshot.__dict__.update(self.__dict__)
        snapshot.__dict__["estimates"] = estimates
        return snapshot

    def job(self, job_id: JobId) -> Job:
        return self.jobs.job(self.jobs.row_of[job_id])

    def state(self, job_id: JobId) -> State:
        return self.jobs.state_of(self.jobs.row_of[job_id])

    def placement(self, job_id: JobId) -> Placement | None:
        return self.placements.get(self.jobs.row_of[job_id])
