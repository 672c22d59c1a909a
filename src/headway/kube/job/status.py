"""A TrainingJob's status and events: written for users, and read back after a restart. Pure.

The cluster's clock is converted to Unix time here, and where pods and submit times are read, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec

from headway.core.estimates import Estimate
from headway.core.gang import Losses, ReplicaKey
from headway.core.job import Job
from headway.core.quantity import LARGEST
from headway.core.states import OVER, TRAINING, State
from headway.jobspec import LONGEST, MOST_STEPS
from headway.kube.api.nesting import MOST_LEVELS, depth
from headway.kube.api.objects import API_VERSION, KIND, LAST_MOMENT, SCHEDULER, Meta, timestamp
from headway.kube.job.intent import Allocation, Intent, RoleAllocation

PHASES = {
    State.WAITING: "Waiting", State.STARTING: "Starting", State.RUNNING: "Running", State.SCALING: "Scaling",
    State.RESIZING: "Resizing", State.MOVING: "Moving", State.STOPPING: "Stopping", State.FINISHED: "Succeeded",
    State.FAILED: "Failed", State.CANCELLED: "Cancelled",
}  # fmt: skip
STATES = {phase: state for state, phase in PHASES.items()}
MOMENTS = {"firstStart": "first_start", "touched": "touched"}
"""Columns of the board that are points in time: name in the status, name on the board."""
_BAD = frozenset({"Interrupted", "Refused", "ProgramFailed", "SaveTimedOut", "SaveFailed", "InvalidSpec",
                  "ScaleRefused", "ScaleTimedOut", "ResizeRefused", "ResizeTimedOut", "Fault"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far training is, by its last report."""

    step: int = 0
    total: int | None = None
    loss: float | None = None
    at: float = 0.0
    """On the cluster's clock."""


@dataclass(frozen=True, slots=True)
class KeptStatus:
    """The contents of a status: intent, columns of the board, last step, and the replicas that can save."""

    intent: Intent
    columns: dict[str, float] = field(default_factory=dict)
    step: int = 0
    savers: frozenset[ReplicaKey] = frozenset()
    marked: bool = True
    """Whether the pods of the job have marks: an earlier version made none."""


# ── written ─────────────────────────────────────────────────────────────────────────────────────────────────


def status_of(intent: Intent, columns: dict[str, float], savers: Iterable[ReplicaKey], began: float) -> dict[str, Any]:
    """The whole status except progress, as a merge patch.

    Every field is there, so that the patch clears old values.
    """
    return {
        "phase": PHASES[intent.state], "attempt": intent.attempt, "allocation": _pack(intent.allocation),
        "target": _pack(intent.target), "since": intent.since + began,
        "until": intent.until + began if math.isfinite(intent.until) else None,
        "goal": PHASES[intent.goal] if intent.state is State.STOPPING else None,
        "draining": intent.draining or None, "saved": intent.saved or None,
        "losses": _pack_losses(intent.losses, began),
        "refusals": intent.refusals or None, "declined": intent.declined or None,
        "reason": intent.reason or None, "message": intent.message or None,
        "savers": [list(saver) for saver in sorted(savers)],
        "history": {name: value + began if name in MOMENTS else value for name, value in columns.items()},
        "replicas": sum(len(one.nodes) for one in intent.allocation or ()),
        "conditions": conditions(intent, began), "marked": True,
    }  # fmt: skip


def progress_status(progress: TrainingProgress | None, estimate: Estimate | None, now: float, began: float) -> Any:
    """How far training is, and the estimate of its end that policies see."""
    if progress is None:
        return None
    packed: dict[str, Any] = {
        "step": progress.step, "total": progress.total, "loss": progress.loss, "eta": None, "left": None,
        "spread": None, "basis": None,
        "text": f"{progress.step}/{progress.total}" if progress.total else str(progress.step),
    }  # fmt: skip
    if estimate is not None:
        packed["basis"] = estimate.sentence
        if math.isfinite(estimate.left):
            packed["left"] = round(estimate.left, 1)
            end = now + estimate.left + began
            packed["eta"] = timestamp(end) if end <= LAST_MOMENT else None
            packed["spread"] = round(estimate.spread, 3) if math.isfinite(estimate.spread) else None
    return packed


def conditions(intent: Intent, began: float) -> list[dict[str, Any]]:
    up = intent.state in TRAINING
    reason = intent.reason or intent.state.name.capitalize()
    moment = timestamp(intent.since + began)[:19] + "Z"
    return [
        {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": intent.message,
         "lastTransitionTime": moment}
        for kind, holds in (("Running", up), ("Finished", intent.state in OVER))
    ]  # fmt: skip


def event_of(meta: Meta, old: Intent, new: Intent, began: float) -> dict[str, Any]:
    """One Kubernetes event for the whole gang: its change of state, and why."""
    if new.state in (State.RUNNING, State.WAITING, *OVER):
        reason = new.reason or new.state.name.capitalize()
    else:
        reason = new.reason if new.draining else new.state.name.capitalize()
    where = new.allocation or new.target or old.allocation or old.target or ()
    places = "; ".join(f"{one.role}: {', '.join(one.nodes)}" for one in where if one.nodes)
    words = f"{old.state.name.lower()} to {new.state.name.lower()}"
    message = ". ".join(part for part in (words, new.message, places) if part)
    now = timestamp(new.since + began)
    return {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": f"{meta.name[:40]}.", "namespace": meta.namespace},
        "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, "name": meta.name,
                           "namespace": meta.namespace, "uid": meta.uid},
        "reason": reason, "message": message[:1000], "type": "Warning" if reason in _BAD else "Normal",
        "source": {"component": SCHEDULER}, "reportingComponent": SCHEDULER,
        "firstTimestamp": now[:19] + "Z", "lastTimestamp": now[:19] + "Z", "count": 1,
    }  # fmt: skip


# ── read back ───────────────────────────────────────────────────────────────────────────────────────────────


Moment = Annotated[float, msgspec.Meta(ge=-LONGEST, le=LONGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _Losses(msgspec.Struct):
    times: list[Moment] = []
    step: Annotated[int, msgspec.Meta(ge=-1)] = -1


class _Share(msgspec.Struct):
    role: str
    nodes: list[str]
    amounts: dict[str, Count]


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
    savers: list[tuple[str, Count]] = []
    marked: bool = False


def read_status(raw: bytes, began: float) -> KeptStatus | None:
    """The contents of a status; None for a job without one. Raises ValueError if Headway did not write it."""
    if depth(bytes(raw)) > MOST_LEVELS:
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
    fields = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    status = msgspec.convert({name: value for name, value in fields.items() if value is not None}, _Status)
    if not status.phase:
        return None
    step = (status.progress or {}).get("step", 0)
    columns = {name: value - began if name in MOMENTS else value for name, value in status.history.items()}
    return KeptStatus(
        _usable(_intent(status, began)),
        columns,
        step if type(step) is int and 0 <= step <= MOST_STEPS else 0,
        frozenset(status.savers),
        status.marked,
    )


def suits(kept: KeptStatus, job: Job) -> bool:
    """Whether the status can be of this job: its allocations have the job's roles, and no more replicas."""
    roles = [role.name for role in job.roles]
    shares = [share for share in (kept.intent.allocation, kept.intent.target) if share is not None]
    return all([one.role for one in share] == roles for share in shares) and all(
        len(one.nodes) <= role.most for share in shares for one, role in zip(share, job.roles, strict=True)
    )


def _intent(status: _Status, began: float) -> Intent:
    return Intent(
        state=STATES[status.phase], attempt=status.attempt, allocation=_unpack(status.allocation),
        target=_unpack(status.target), since=status.since - began,
        until=math.inf if status.until is None else status.until - began,
        goal=STATES[status.goal] if status.goal else State.WAITING, draining=status.draining, saved=status.saved,
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


def _pack(allocation: Allocation | None) -> list[dict[str, Any]] | None:
    if allocation is None:
        return None
    return [{"role": one.role, "nodes": list(one.nodes), "amounts": dict(one.amounts)} for one in allocation]


def _unpack(packed: list[_Share] | None) -> Allocation | None:
    if packed is None:
        return None
    return tuple(RoleAllocation(one.role, tuple(one.nodes), tuple(sorted(one.amounts.items()))) for one in packed)


def _pack_losses(losses: Losses, began: float) -> dict[str, Any] | None:
    return {"times": [at + began for at in losses.times], "step": losses.step} if losses.times else None
