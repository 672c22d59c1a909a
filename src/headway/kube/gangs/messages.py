"""What can happen to a gang. Plain data; `take` gives them to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.core.gang import ReplicaKey
from headway.core.job import Job
from headway.core.plan import Action
from headway.kube.api.errors import ApiError
from headway.kube.api.usage import PodUsage
from headway.kube.gangs.gang import Expected, TrainingProgress
from headway.kube.gangs.intent import Allocation, Intent
from headway.kube.gangs.model import ApiRefusal, PodAction
from headway.kube.intake.dry_runs import Booking
from headway.kube.intake.orders import Orders
from headway.kube.intake.spec import JobSpec
from headway.kube.pods.replica import Replica
from headway.kube.settings import KubeTimeouts
from headway.progress_server import Event

# ── from the watches ──


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: Replica


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: str


@dataclass(frozen=True, slots=True)
class Edited:
    """Its user changed the object, or only we did."""

    orders: Orders
    raw: bytes
    spec: JobSpec | None = None
    asked: Job | None = None
    """The job that its new spec asks for; None if the spec is as it was, or refused."""
    refused: str = ""
    """Why the change does not count."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The object was deleted."""


@dataclass(frozen=True, slots=True)
class StatusLost:
    """The server's data are of an earlier time: its status is written anew."""


@dataclass(frozen=True, slots=True)
class UsageSeen:
    usage: PodUsage


# ── from the cycle ──


@dataclass(frozen=True, slots=True)
class Decided:
    action: Action
    target: Allocation | None
    """Where it will be when the change has ended."""
    now: float
    timeouts: KubeTimeouts


@dataclass(frozen=True, slots=True)
class Explained:
    """Why it waits."""

    reason: str
    message: str
    now: float
    helps: tuple[str, ...] = ()
    """Who holds the room, and what would help."""
    expected: Expected | None = None
    """When it starts and is done."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """It was asked why it waits."""

    now: float


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Its neighbours allow none of the nodes that have room."""

    reason: str
    message: str
    now: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Its neighbours allow what was planned."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Its last report is in a snapshot."""


# ── from training ──


@dataclass(frozen=True, slots=True)
class Heard:
    event: Event
    now: float


@dataclass(frozen=True, slots=True)
class SaveAsked:
    """These replicas were asked to save."""

    replicas: frozenset[ReplicaKey]


@dataclass(frozen=True, slots=True)
class SaveByTime:
    """These replicas were asked to save because it is time, and train on."""

    replicas: frozenset[ReplicaKey]
    now: float


@dataclass(frozen=True, slots=True)
class SizeTold:
    """Its replicas were told its size."""


# ── from the door ──


@dataclass(frozen=True, slots=True)
class Answered:
    """A request about one of its pods was answered."""

    action: PodAction
    seen: bool = False
    """The answer showed the pod as it is after it: `PodSeen` came before."""
    gone: bool = False
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class StatusWritten:
    intent: Intent
    progress: TrainingProgress | None
    usage: PodUsage | None
    expected: Expected | None = None


@dataclass(frozen=True, slots=True)
class StatusRefused:
    """The server does not take its status, whatever is in it."""

    error: ApiError
    now: float


# ── from this process ──


@dataclass(frozen=True, slots=True)
class Rebooked:
    """How its pods will be from now on, by a dry run."""

    booking: Booking


@dataclass(frozen=True, slots=True)
class Unbookable:
    """Its pods will demand what Headway cannot honour."""

    why: str


@dataclass(frozen=True, slots=True)
class NodesFound:
    """Other nodes for some of its pods."""

    target: Allocation
    excused: frozenset[str] = frozenset()
    avoided: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NoNodes:
    """There is no room for the rest of a start that was left half made."""

    why: str
    now: float


@dataclass(frozen=True, slots=True)
class HeldMore:
    """Its pods hold more than was booked."""

    job: Job
    refusal: ApiRefusal | None


@dataclass(frozen=True, slots=True)
class LeftBoard:
    """It is off the board; this is what the board knew of it."""

    history: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TermsFound:
    """After a restart: the job as its spec asks for it, where its present gang is another one."""

    pending: Job | None


@dataclass(frozen=True, slots=True)
class Faulted:
    """A step for it raised, or what an earlier process left of it makes no sense."""

    why: str
    now: float
    again: float | None = None
    """When it is tried again; None: after a pause that grows."""


Message = (
    PodSeen | PodGone | Edited | Withdrawn | StatusLost | UsageSeen | Decided | Explained | LookedAt | NoPlace | Placed
    | Sampled | Heard | SaveAsked | SaveByTime | SizeTold | Answered | StatusWritten | StatusRefused | Rebooked
    | Unbookable | NodesFound | NoNodes | HeldMore | LeftBoard | TermsFound | Faulted
)  # fmt: skip
