"""When jobs that wait are expected to start and to be done, as people read it. All times are in UTC, as in a status."""

from __future__ import annotations

import math
from collections.abc import Mapping

from headway.core.job import JobId
from headway.kube.api.objects import LAST_MOMENT, timestamp
from headway.kube.gangs.gang import Expected, Moments

Foreseen = Mapping[JobId, Expected]
NOTICED_SECONDS, NOTICED_SHARE = 60.0, 0.25


def between(moments: Moments, began: float) -> str:
    """`2026-11-19 18:05Z (17:58-18:20)`; empty where it may never be. The day is told again where it is another."""
    low, mid, high = (_text(one, began) for one in moments)
    if not mid:
        return ""
    day = mid[:11]
    low, high = low.removeprefix(day), high.removeprefix(day)
    if not high:
        return f"{mid}Z ({low} or later)"
    if low == high == mid.removeprefix(day):
        return f"{mid}Z"
    return f"{mid}Z ({low}{'-' if len(low) == len(high) == len('18:05') else ' to '}{high})"


def _text(moment: float, began: float) -> str:
    return "" if moment + began > LAST_MOMENT else timestamp(moment + began)[:16].replace("T", " ")


def moved(told: Expected | None, found: Expected | None, now: float) -> bool:
    """Whether it has changed so much that people would notice: by more than a minute, and more than a quarter of the
    time until then.
    """
    if told is None or found is None:
        return told is not found
    pairs = zip(_later(told), _later(found), strict=True)
    return any(old != new and abs(old - new) > _noticed(min(old, new) - now) for old, new in pairs)


def _later(expected: Expected) -> tuple[float, ...]:
    """The middle of each moment and its latest."""
    starts, done = expected
    return (*((math.inf, math.inf) if starts is None else starts[1:]), *done[1:])


def _noticed(ahead: float) -> float:
    return max(NOTICED_SECONDS, NOTICED_SHARE * ahead)
