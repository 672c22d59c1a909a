"""Work for the thread that talks to the API server, and what became of it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.kube.api.errors import ApiError
from headway.kube.api.objects import Pod
from headway.kube.api.usage import Measured
from headway.kube.api.watch import News
from headway.kube.pod.constraints import BoundClaim
from headway.kube.reconcile.model import PodAction
from headway.kube.rehearsal import Rehearsed


@dataclass(frozen=True, slots=True)
class PodRequest:
    action: PodAction
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApiWork:
    """Requests about one job. The uid makes sure that no other job of the same name is changed."""

    uid: str
    namespace: str
    name: str
    status: dict[str, Any] | None
    requests: tuple[PodRequest, ...] = ()
    token: Any = None
    """Any value; it comes back with the result."""
    in_hand: bool = True
    """Whether the job is on the board. Others are only told why not, and the work for jobs in hand does not wait."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    action: PodAction
    pod: Pod | None = None
    """The pod in the API server after the action."""
    gone: bool = False
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class Performed:
    work: ApiWork
    error: ApiError | None
    """Why the status could not be written; then no action was taken."""
    results: tuple[ActionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimsRead:
    """The claims for volumes of a pod that somebody else made."""

    uid: str
    claims: Mapping[str, BoundClaim]


@dataclass(frozen=True, slots=True)
class LeaseRead:
    """When a node last renewed its Lease, as it is written there; empty if that cannot be read."""

    node: str
    renewed: str
    asked: float
    """When it was asked for, on the cluster's clock."""


@dataclass(frozen=True, slots=True)
class Wake:
    """The reader is to wake up: the progress server has messages, or the program ends."""


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The thread has ended, although nobody closed it: no change will be heard of any more."""

    why: str


@dataclass(frozen=True, slots=True)
class UsersRecorded:
    """Since when the cluster makes sure who submits: a Unix time; None if it does not."""

    since: float | None


Message = News[Any] | Performed | Rehearsed | ClaimsRead | LeaseRead | Measured | UsersRecorded | Wake | WorkerEnded
