"""Why a job waits, told in its own status: with numbers, and no more often than progress is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headway.core.job import JobId
from headway.core.plan import Plan
from headway.core.reason import Code, explain
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.kube.tracked import Tracked

MOST_AT_ONCE = 20
"""Explanations per cycle: a long queue must not slow decisions down."""


def tell_why(
    snapshot: Snapshot, plan: Plan, record_of: Callable[[JobId], Tracked | None], now: float, every: float
) -> None:
    """Changes the message of jobs that wait; the next look at them writes it."""
    left = MOST_AT_ONCE
    for row in snapshot.jobs.waiting():
        record = record_of(snapshot.jobs.job(int(row)).id)
        if record is None or record.intent.state is not State.WAITING or now - record.explained_at < every:
            continue
        reason = explain(snapshot, plan, record.job.id)
        if reason.code is not Code.STARTS_NOW:
            record.explained_at = now
            words = "".join(part.capitalize() for part in reason.code.split("_"))
            record.intent = replace(record.intent, reason=words, message=reason.sentence)
            record.dirty = True
            left -= 1
        if left == 0:
            return
