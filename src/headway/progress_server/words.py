"""From a line on the wire to an event. Nonsense is dropped here and never reaches a policy.

A number that is no number, a step below zero or beyond all reason: the message is ignored and counted. A loss that is
no number is a report without a loss; whether steps may go backwards is decided by whoever knows the attempt.
"""

from __future__ import annotations

import json
import math
from typing import Any

from headway.core.job import JobId
from headway.progress_server.events import Connected, Done, Event, Reported, Saved, SaveFailed, Speaker

LARGEST_STEP = 10**15
MOST_VALUES = 64


class Nonsense(Exception):  # noqa: N818  it names what was heard
    """A line that means nothing to us."""


def parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Nonsense("not JSON") from error
    if not isinstance(message, dict):
        raise Nonsense("not an object")
    return message


def greeting(message: dict[str, Any]) -> Connected:
    """The first line of every connection says who speaks."""
    job, role = message.get("job"), message.get("role")
    if "hello" not in message or not isinstance(job, str) or not isinstance(role, str):
        raise Nonsense("no greeting")
    index, attempt = _whole(message.get("index", 0)), _whole(message.get("attempt", 0))
    return Connected(JobId(job), role, index, attempt, bool(message.get("can_save")), _steps(message))


def understand(message: dict[str, Any], who: Connected) -> Event | None:
    """The event, or None for a message of a kind that we do not know."""
    speaker = (who.job, who.role, who.index, who.attempt)
    if "saved" in message:
        request = message["saved"]
        return Saved(*speaker, None if request is None else _whole(request), _whole(message.get("step", 0)))
    if "save_failed" in message:
        return SaveFailed(*speaker, _whole(message["save_failed"]), str(message.get("why", ""))[:500])
    if message.get("done"):
        return Done(*speaker, _whole(message.get("step", 0)))
    if "step" in message:
        values = _values(message.get("values"))
        return Reported(*speaker, _whole(message["step"]), _finite(message.get("loss")), who.total_steps, values)
    return None


def speaker_of(who: Speaker) -> tuple[JobId, str, int, int]:
    return who.job, who.role, who.index, who.attempt


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Nonsense(f"{value!r} is no number")
    if not 0 <= value <= LARGEST_STEP:
        raise Nonsense(f"{value!r} is out of range")
    return int(value)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _values(told: Any) -> dict[str, float]:
    """A few named numbers; what is none is left out."""
    if not isinstance(told, dict):
        return {}
    found = ((name, _finite(value)) for name, value in list(told.items())[:MOST_VALUES])
    return {name: value for name, value in found if value is not None}


def _steps(message: dict[str, Any]) -> int | None:
    value = message.get("total_steps")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_STEP:
        return None
    return value
