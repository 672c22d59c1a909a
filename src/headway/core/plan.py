"""What a policy answers: a plan, with at most one decision per job. A decision says what to do, never how."""

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
    RECLAIMED = "reclaimed"
    """Its queue is over its quota, and another queue needs what its own quota guarantees."""

    @property
    def is_final(self) -> bool:
        """Whether the job stops even if it does not save in time. After any other request it runs on."""
        return self in (Because.CANCELLED, Because.RECLAIMED)


@dataclass(frozen=True, slots=True)
class Start:
    """Start a job that waits, at this placement."""

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
    """Save, stop and start the whole gang elsewhere. Without an acknowledged checkpoint the job stays where it is."""

    job: JobId
    placement: Placement


@dataclass(frozen=True, slots=True)
class Stop:
    """Save, then stop. A cancelled job is over, any other waits again."""

    job: JobId
    because: Because


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keep this placement free for a job that waits. Computed anew in every cycle, so a restart loses nothing."""

    job: JobId
    placement: Placement
    until: float


Action = Start | Scale | Resize | Move | Stop
"""A decision that a cluster carries out."""
Decision = Action | Reserve


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in this cycle, and when to ask again."""

    decisions: tuple[Decision, ...] = ()
    until: float = math.inf
    """The next moment at which the policy would decide differently even if nothing happens. There are no ticks."""
