"""What a policy answers: a plan, that is at most one decision per job. Decisions say what, never how."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from headway.core.job import JobId
from headway.core.placement import Placement


class Because(enum.StrEnum):
    """Why a job is stopped."""

    PREEMPTED = "preempted"
    SUSPENDED = "suspended"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Start:
    job: JobId
    placement: Placement


@dataclass(frozen=True, slots=True)
class Scale:
    """More or fewer replicas of one role; the rest of the gang trains on."""

    job: JobId
    role: str
    nodes: tuple[int, ...]
    """The role's nodes afterwards, all of them."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Another amount of cpu and memory for every replica of one role, in place. Never accelerators."""

    job: JobId
    role: str
    cpu: int
    """Thousandths of a core."""
    memory: int
    """MiB."""


@dataclass(frozen=True, slots=True)
class Move:
    """Save, stop, start elsewhere: the whole gang. Without an acknowledged checkpoint the job stays."""

    job: JobId
    placement: Placement


@dataclass(frozen=True, slots=True)
class Stop:
    """Save and stop. A preempted or suspended job waits again; a cancelled one is over."""

    job: JobId
    because: Because


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keep this hole for a job that waits. Recomputed in every cycle; nothing depends on its surviving a restart."""

    job: JobId
    placement: Placement
    until: float


Action = Start | Scale | Resize | Move | Stop
"""A decision that a cluster carries out."""
Decision = Action | Reserve


@dataclass(frozen=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...] = ()
    until: float = math.inf
    """The next moment at which this policy would decide otherwise though nothing happens. There are no ticks."""
