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
from headway.core.quantity import MEMORY, show
from headway.core.states import State


class Flight(NamedTuple):
    """Something that was begun and whose end is not yet seen. The job's state tells what it is."""

    towards: Placement | None
    """Where the job will be when it ends; None for a stop."""
    since: float
    until: float
    """When the cluster gives it up."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a training script reported of its progress."""

    job: JobId
    at: float
    step: int
    loss: float | None = None
    total_steps: int | None = None
    metric: float | None = None
    """The metric of the job's target, where the job has a target and reported it."""


class GpuUse(NamedTuple):
    """The GPUs of a job, and what it uses of them."""

    devices: tuple[str, ...]
    """As people name them: `0`, or `0:1` for a slice."""
    busy: float | None = None
    """How many of them compute, as last measured: 1.5 of two; None where that is not measured."""
    memory: int | None = None
    """MiB in use on all of them."""

    def __str__(self) -> str:
        """`0,1: 75 %, 21.3 GiB`."""
        busy = "" if self.busy is None else f"{self.busy / len(self.devices):.0%}"
        memory = "" if self.memory is None else show(MEMORY, self.memory)
        measured = ", ".join(part for part in (busy, memory) if part)
        return f"{','.join(self.devices)}{f': {measured}' if measured else ''}".replace("%", " %")


class TrainedMode(NamedTuple):
    """Whether a trained policy may decide, as whoever watches it says. An input, so that a replay decides the same."""

    mode: str = ""
    """`shadow`, `on` or `off`; empty where nobody watches, as in virtual time: then it decides."""
    why: str = ""
    """For people: since when, and why."""

    @property
    def decides(self) -> bool:
        return self.mode in ("", "on")


UNWATCHED = TrainedMode()


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One per cycle. It has no slots, because filling a frozen class with slots takes three times as long."""

    now: float
    cycle: int
    nodes: Nodes
    free: IntArray
    """(kinds, nodes): capacity minus everything held, with both ends of a move."""
    jobs: Jobs
    placements: Mapping[int, Placement]
    """By row: where the replicas of jobs that are up are."""
    flights: Mapping[int, Flight]
    used_cpu: Mapping[int, float] = field(default_factory=dict)
    """By row: cores that all replicas together really use, as last measured."""
    gpus: Mapping[int, GpuUse] = field(default_factory=dict)
    """By row: the GPUs that its replicas have, where the cluster gives them out one by one."""
    samples: tuple[Sample, ...] = ()
    """Since the snapshot before."""
    changed: tuple[int, ...] = ()
    """Rows that changed since the snapshot before."""
    notes: tuple[tuple[JobId, str], ...] = ()
    """Since the snapshot before: a sentence about a job that no column shows, such as why it failed."""
    standing: TrainedMode = UNWATCHED
    """Of a trained policy."""
    estimates: Estimates = field(default_factory=Estimates)

    @classmethod
    def of(cls, fields: dict[str, object]) -> Snapshot:
        """The same as calling the class with all fields, but faster."""
        snapshot = object.__new__(cls)
        object.__setattr__(snapshot, "__dict__", fields)
        return snapshot

    def standing_as(self, standing: TrainedMode) -> Snapshot:
        """A copy in which the trained policy stands so."""
        snapshot = object.__new__(Snapshot)
        snapshot.__dict__.update(self.__dict__)
        snapshot.__dict__["standing"] = standing
        return snapshot

    def with_estimates(self, estimates: Estimates) -> Snapshot:
        """A copy with these estimates."""
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
