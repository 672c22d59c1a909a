"""Reads back the status of a TrainingJob, after a restart. Pure.

A status says how many replicas each role has, not where they are: nodes that are read are blank. `reconcile.locate`
fills them in from the pods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from headway.core.gang import ReplicaKey
from headway.core.job import Job
from headway.core.quantity import LARGEST
from headway.core.restarts import Losses
from headway.core.states import OVER, TRAINING, State
from headway.jobspec import LONGEST, MOST_STEPS
from headway.kube.api.objects import MOST_LEVELS, is_deeper
from headway.kube.gangs.intent import PAUSES, Allocation, Intent, RoleAllocation
from headway.kube.intake.changes import KeptTerms
from headway.kube.values import replace
from headway.kube.views.status import MOMENTS, PHASES, SUSPENDED, read_savers

STATES = {phase: state for state, phase in PHASES.items()} | {SUSPENDED: State.CANCELLED}
MOST_REPLICAS = 100_000
UNKNOWN = ""
"""In place of a node's name: the pods say which one it is."""


@dataclass(frozen=True, slots=True)
class KeptStatus:
    """The contents of a status: intent, columns of the board, last step, and the replicas that can save."""

    intent: Intent
    columns: dict[str, float] = field(default_factory=dict)
    step: int = 0
    savers: frozenset[ReplicaKey] = frozenset()
    marked: bool = True
    """Whether the pods of the job have marks: an earlier version made none."""
    refused: str = ""
    """Why its user's last change does not count."""
    terms: KeptTerms | None = None
    """Then the terms under which it goes on."""
    admitted: str | None = None
    """The queue in which it was admitted; None if it was not, or an earlier version wrote the status."""
    epoch: int = 0
    """That of the scheduler that wrote it."""

    @property
    def holds(self) -> bool:
        """Whether it has pods, or may have."""
        return self.intent.state not in (*OVER, State.WAITING)


Moment = Annotated[float, msgspec.Meta(ge=-LONGEST, le=LONGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _Losses(msgspec.Struct):
    times: list[Moment] = []
    step: Annotated[int, msgspec.Meta(ge=-1)] = -1


class _Share(msgspec.Struct):
    role: str
    amounts: dict[str, Count]
    replicas: Annotated[int, msgspec.Meta(ge=0, le=MOST_REPLICAS)] = 0
    nodes: list[str] = []
    """Written by an earlier version."""


class _Status(msgspec.Struct):
    """The part of a TrainingJob's status that is read back."""

    phase: str = ""
    attempt: Count = 0
    allocation: list[_Share] | None = None
    target: list[_Share] | None = None
    since: Moment = 0.0
    until: Moment | None = None
    goal: str = ""
    draining: bool = False
    saved: bool = False
    losses: _Losses = msgspec.field(default_factory=_Losses)
    refusals: Count = 0
    declined: Count = 0
    reason: str = ""
    message: str = ""
    history: dict[str, Moment] = {}
    progress: dict[str, Any] | None = None
    savers: list[str | tuple[str, Count]] = []
    marked: bool = False
    refused: str = ""
    terms: KeptTerms | None = None
    admitted: str | None = None
    epoch: Count = 0


_decoder = msgspec.json.Decoder(_Status)


def read_status(raw: bytes, began: float) -> KeptStatus | None:
    """The contents of a status; None for a job without one. Raises ValueError if Headway did not write it."""
    if is_deeper(bytes(raw)):
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
    status = _decoded(raw or b"{}")
    if not status.phase:
        return None
    step = (status.progress or {}).get("step", 0)
    columns = {name: value - began if name in MOMENTS else value for name, value in status.history.items()}
    return KeptStatus(
        _usable(_intent(status, began)),
        columns,
        step if type(step) is int and 0 <= step <= MOST_STEPS else 0,
        read_savers(status.savers),
        status.marked,
        status.refused,
        status.terms if status.refused else None,
        status.admitted,
        status.epoch,
    )


def _decoded(raw: bytes) -> _Status:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:  # perhaps only because null stands for a field that is not there
        fields = msgspec.json.decode(raw, type=dict[str, Any])
        return msgspec.convert({name: value for name, value in fields.items() if value is not None}, _Status)


def suits(kept: KeptStatus, job: Job) -> bool:
    """Whether the status can be of this job: its allocations have the job's roles, and no more replicas."""
    roles = [role.name for role in job.roles]
    shares = [share for share in (kept.intent.allocation, kept.intent.target) if share is not None]
    return all([one.role for one in share] == roles for share in shares) and all(
        len(one.nodes) <= role.max for share in shares for one, role in zip(share, job.roles, strict=True)
    )


def _intent(status: _Status, began: float) -> Intent:
    pausing = status.draining and status.reason in PAUSES
    return Intent(
        state=State.STOPPING if pausing else STATES[status.phase], attempt=status.attempt,
        allocation=_unpack(status.allocation),
        target=_unpack(status.target), since=status.since - began,
        until=math.inf if status.until is None else status.until - began,
        goal=STATES[status.goal] if status.goal else State.WAITING,
        suspended=SUSPENDED in (status.phase, status.goal), draining=status.draining, saved=status.saved,
        losses=Losses(tuple(at - began for at in status.losses.times), status.losses.step),
        refusals=status.refusals, declined=status.declined, reason=status.reason, message=status.message,
    )  # fmt: skip


def _usable(intent: Intent) -> Intent:
    """An intent without an allocation that its state needs is unusable: the job is stopped and starts again."""
    needs_target = intent.state in (State.STARTING, State.SCALING, State.RESIZING, State.MOVING)
    needs_allocation = intent.state in TRAINING
    if (needs_target and intent.target is None) or (needs_allocation and intent.allocation is None):
        return replace(intent, state=State.STOPPING, draining=True, goal=State.WAITING, target=None)
    return intent


def _unpack(packed: list[_Share] | None) -> Allocation | None:
    if packed is None:
        return None
    return tuple(
        RoleAllocation(one.role, (UNKNOWN,) * (one.replicas or len(one.nodes)), tuple(sorted(one.amounts.items())))
        for one in packed
    )


def without_nodes(intent: Intent) -> Intent:
    """The intent as it is read back from a status."""
    here, there = _blank(intent.allocation), _blank(intent.target)
    return replace(intent, allocation=here, target=there)


def _blank(allocation: Allocation | None) -> Allocation | None:
    if allocation is None:
        return None
    return tuple(replace(one, nodes=(UNKNOWN,) * len(one.nodes)) for one in allocation)


def resumed(kept: KeptStatus) -> KeptStatus:
    """The status of a suspended job that waits again."""
    message = "its user resumed it"
    return replace(
        kept, intent=replace(kept.intent, state=State.WAITING, suspended=False, reason="Resumed", message=message)
    )
