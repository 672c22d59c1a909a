"""What training scripts send: the events, and how a line of JSON becomes one. A bad line never reaches a policy.

Example: `{"step": 3, "loss": 0.5}` becomes Reported. A step that is NaN, negative or larger than 10**15 makes the
message invalid, and it is ignored. A loss of NaN makes a report without a loss. Steps that go backwards are accepted
here: the cluster, which knows the attempt, ignores them. Texts lose control characters and lone surrogates here,
and are cut to a bounded length.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.job import JobId, Target
from headway.core.text import clean, is_clean

LARGEST_STEP = 10**15
MOST_VALUES = 64
LONGEST_NAME = 100
"""Of a metric."""
LONGEST_JOB_NAME = 400
"""Of a job with its namespace, or of a role."""
LONGEST_TEXT = 500
LONGEST_TOKEN = 16_384

Sender = tuple[JobId, str, int, int]
"""Job, role, index and attempt."""


@dataclass(frozen=True, slots=True)
class ReplicaEvent:
    """Which replica sent it. An event of an earlier attempt is out of date."""

    job: JobId
    role: str
    index: int
    attempt: int

    @property
    def sender(self) -> Sender:
        return self.job, self.role, self.index, self.attempt


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first message of a connection. It has a token, which proves which replica this is, or a claim."""

    token: str
    claimed: Sender | None
    can_save: bool
    total_steps: int | None
    rank: int
    tracker: str
    beats: bool
    """It answers heartbeats."""
    peer: str = ""
    """The address that it comes from."""

    def connected(self, sender: Sender) -> Connected:
        return Connected(*sender, self.can_save, self.total_steps, self.rank, self.tracker)


@dataclass(frozen=True, slots=True)
class Connected(ReplicaEvent):
    can_save: bool
    total_steps: int | None
    rank: int = 0
    """Which process of the replica this is, where a launcher such as torchrun starts several."""
    tracker: str = ""
    """Names the tracker in the script: the same after a reconnect."""


@dataclass(frozen=True, slots=True)
class Reported(ReplicaEvent):
    step: int
    loss: float | None
    total_steps: int | None
    values: Mapping[str, float] = field(default_factory=dict)
    """Other metrics by name; finite numbers only."""
    first: int | None = None
    """The first step that the script reported since it was started, where it says so."""

    def metric(self, target: Target | None) -> float | None:
        """The metric of the job's target, if this report has it."""
        if target is None:
            return None
        return self.values.get(target.metric, self.loss if target.metric == "loss" else None)


@dataclass(frozen=True, slots=True)
class Saved(ReplicaEvent):
    request: int | None
    """The request that this answers; None for a checkpoint that the script made by itself."""
    step: int
    seconds: float | None = None
    """How long the save took, where the script says so."""


@dataclass(frozen=True, slots=True)
class SaveFailed(ReplicaEvent):
    request: int
    why: str


@dataclass(frozen=True, slots=True)
class Done(ReplicaEvent):
    step: int


@dataclass(frozen=True, slots=True)
class Disconnected(ReplicaEvent):
    """The connection ended, for any reason."""


Event = Connected | Reported | Saved | SaveFailed | Done | Disconnected


# ── from a line to an event ─────────────────────────────────────────────────────────────────────────────────


class MessageError(Exception):
    """A line that is not a valid message."""


def parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError, MemoryError) as error:
        raise MessageError("not JSON") from error
    if not isinstance(message, dict):
        raise MessageError("not an object")
    return message


def greeting_of(message: dict[str, Any], peer: str = "") -> Greeting:
    """The first line of a connection. With a token nothing is read of what it claims to be."""
    if "hello" not in message:
        raise MessageError("the first message must have the field hello")
    token, claimed = message.get("token", ""), None
    if not isinstance(token, str) or len(token) > LONGEST_TOKEN or not token.isascii():
        raise MessageError("not a token")
    if not token:
        index, attempt = (_whole(message.get(name, 0)) for name in ("index", "attempt"))
        claimed = (JobId(_name(message.get("job"))), _name(message.get("role")), index, attempt)
    return Greeting(
        token=token, claimed=claimed, can_save=bool(message.get("can_save")), total_steps=_steps(message),
        rank=_whole(message.get("rank", 0)), tracker=clean(str(message.get("tracker", "")), LONGEST_NAME),
        beats=bool(message.get("beats")), peer=peer,
    )  # fmt: skip


def event_of(message: dict[str, Any], replica: Connected) -> Event | None:
    """The event of a later line; None for a message of an unknown kind."""
    sender = replica.sender
    if "saved" in message:
        request = message["saved"]
        seconds = _finite(message.get("seconds"))
        took = seconds if seconds is not None and seconds >= 0 else None
        return Saved(*sender, None if request is None else _whole(request), _whole(message.get("step", 0)), took)
    if "save_failed" in message:
        return SaveFailed(*sender, _whole(message["save_failed"]), clean(str(message.get("why", "")), LONGEST_TEXT))
    if message.get("done"):
        return Done(*sender, _whole(message.get("step", 0)))
    if "step" in message:
        values = _values(message.get("values"))
        step, first = _whole(message["step"]), message.get("first")
        first = None if first is None else min(step, _whole(first))
        return Reported(*sender, step, _finite(message.get("loss")), replica.total_steps, values, first)
    return None


def _name(value: Any) -> str:
    """The name of a job or a role. One that no job can have is invalid, not cleaned: it would name another job."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_JOB_NAME or not is_clean(value):
        raise MessageError("not the name of a job or a role")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageError("not a number")
    if not 0 <= value <= LARGEST_STEP:  # NaN is not, either
        raise MessageError(f"not between 0 and {LARGEST_STEP}")
    return int(value)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _values(sent: Any) -> dict[str, float]:
    """The first 64 named values; those that are not finite numbers are left out."""
    if not isinstance(sent, dict):
        return {}
    found = ((name, _finite(value)) for name, value in list(sent.items())[:MOST_VALUES])
    return {clean(name, LONGEST_NAME): value for name, value in found if value is not None}


def _steps(message: dict[str, Any]) -> int | None:
    value = message.get("total_steps")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_STEP:
        return None
    return value
