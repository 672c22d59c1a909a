"""What we mean to do with a job, as it is kept in the TrainingJob's status: the only memory there is.

Written before anything is done, read again after a restart. A job that is taken down, for whatever reason, is
STOPPING with `draining` set and `goal` saying what it will be once its pods are gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from headway.core.gang import Losses
from headway.core.job import Amounts
from headway.core.states import State


@dataclass(frozen=True, slots=True)
class RoleAllocation:
    """One role's part of an allocation."""

    role: str
    nodes: tuple[str, ...]
    amounts: Amounts
    """What each replica holds."""


Allocation = tuple[RoleAllocation, ...]
"""One share per role, in the job's order."""

PHASES = {
    State.WAITING: "Waiting", State.STARTING: "Starting", State.RUNNING: "Running", State.SCALING: "Scaling",
    State.RESIZING: "Resizing", State.MOVING: "Moving", State.STOPPING: "Stopping", State.FINISHED: "Succeeded",
    State.FAILED: "Failed", State.CANCELLED: "Cancelled",
}  # fmt: skip
STATES = {phase: state for state, phase in PHASES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """All moments are seconds since 1970."""

    state: State = State.WAITING
    attempt: int = 0
    """How often it was started and taken down before; pods of another attempt are nobody's."""
    allocation: Allocation | None = None
    """Where it is."""
    target: Allocation | None = None
    """Where it will be when what was begun has ended."""
    since: float = 0.0
    until: float = math.inf
    """When what was begun is given up."""
    goal: State = State.WAITING
    """What a stopping job will be."""
    draining: bool = False
    """A stopping job's pods go, whatever they say."""
    saved: bool = False
    """A moving job has saved: it no longer stays where it was."""
    losses: Losses = Losses()
    """Since it last made progress; times are seconds since 1970."""
    refusals: int = 0
    """How often in a row a start was refused."""
    declined: int = 0
    """How often in a row something else was asked of it while it ran, in vain."""
    reason: str = ""
    message: str = ""


def wanted(intent: Intent) -> Allocation | None:
    """The allocation whose pods should be there now."""
    if intent.state in (State.STARTING, State.SCALING, State.RESIZING) or (
        intent.state is State.MOVING and intent.saved
    ):
        return intent.target
    if intent.state is State.STOPPING and intent.draining:
        return None
    return intent.allocation


class _Losses(msgspec.Struct):
    times: list[float] = []
    step: int = -1


class _Status(msgspec.Struct):
    """The part of a TrainingJob's status that is read back."""

    phase: str = ""
    attempt: int = 0
    allocation: list[dict[str, Any]] | None = None
    target: list[dict[str, Any]] | None = None
    since: float = 0.0
    until: float | None = None
    goal: str = ""
    draining: bool = False
    saved: bool = False
    losses: _Losses = msgspec.field(default_factory=_Losses)
    refusals: int = 0
    declined: int = 0
    reason: str = ""
    message: str = ""
    history: dict[str, float] = {}
    progress: dict[str, Any] | None = None
    savers: list[tuple[str, int]] = []


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a status says: the intent, the board's columns and how far training was."""

    intent: Intent
    history: dict[str, float] = field(default_factory=dict)
    step: int = 0
    savers: frozenset[tuple[str, int]] = frozenset()


def pack(intent: Intent) -> dict[str, Any]:
    """The status fields of an intent. Every field is there, so that a merge patch clears what no longer holds."""
    return {
        "phase": PHASES[intent.state], "attempt": intent.attempt, "allocation": _pack(intent.allocation),
        "target": _pack(intent.target), "since": intent.since,
        "until": intent.until if math.isfinite(intent.until) else None,
        "goal": PHASES[intent.goal] if intent.state is State.STOPPING else None,
        "draining": intent.draining or None, "saved": intent.saved or None,
        "losses": {"times": list(intent.losses.times), "step": intent.losses.step} if intent.losses.times else None,
        "refusals": intent.refusals or None, "declined": intent.declined or None,
        "reason": intent.reason or None, "message": intent.message or None,
    }  # fmt: skip


def unpack(raw: bytes) -> Remembered:
    """What the status says; a job that has none waits. Raises ValueError where it is not of our making."""
    fields = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    status = msgspec.convert({name: value for name, value in fields.items() if value is not None}, _Status)
    state = STATES[status.phase] if status.phase else State.WAITING
    step = (status.progress or {}).get("step", 0)
    intent = Intent(
        state=state, attempt=status.attempt, allocation=_unpack(status.allocation),
        target=_unpack(status.target), since=status.since,
        until=math.inf if status.until is None else status.until,
        goal=STATES[status.goal] if status.goal else State.WAITING, draining=status.draining, saved=status.saved,
        losses=Losses(tuple(status.losses.times), status.losses.step), refusals=status.refusals,
        declined=status.declined, reason=status.reason, message=status.message,
    )  # fmt: skip
    return Remembered(_sound(intent), status.history, step if isinstance(step, int) else 0, frozenset(status.savers))


def _sound(intent: Intent) -> Intent:
    """An intent that lacks what its state needs cannot be acted on: it is taken down and starts anew."""
    needs_target = intent.state in (State.STARTING, State.SCALING, State.RESIZING, State.MOVING)
    needs_allocation = intent.state in (State.RUNNING, State.SCALING, State.RESIZING)
    if (needs_target and intent.target is None) or (needs_allocation and intent.allocation is None):
        return replace(intent, state=State.STOPPING, draining=True, goal=State.WAITING, target=None)
    return intent


def _pack(allocation: Allocation | None) -> list[dict[str, Any]] | None:
    if allocation is None:
        return None
    return [{"role": s.role, "nodes": list(s.nodes), "amounts": dict(s.amounts)} for s in allocation]


def _unpack(packed: list[dict[str, Any]] | None) -> Allocation | None:
    if packed is None:
        return None
    return tuple(
        RoleAllocation(s["role"], tuple(s["nodes"]), tuple(sorted((k, int(v)) for k, v in s["amounts"].items())))
        for s in packed
    )
