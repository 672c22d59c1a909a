"""The cool-down: after each decision about a job it is left alone for a while."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.terms import Terms
from headway.policies.value.times import Rows


def cool_at(snapshot: Snapshot, row: int, seconds: float) -> float:
    """When a job has been left alone for this many seconds since the last decision about it."""
    return float(snapshot.jobs.value(row, "touched")) + seconds


def all_cool_at(snapshot: Snapshot, rows: Rows, seconds: float) -> FloatArray:
    """The same for many jobs, aligned with the rows."""
    moments: FloatArray = snapshot.jobs.touched[rows] + seconds
    return moments


def rested(draft: Draft, row: int, seconds: float) -> bool:
    """Whether the cool-down is over; if not, the plan asks to be called when it is."""
    due = cool_at(draft.snapshot, row, seconds)
    if draft.snapshot.now < due:
        draft.wake(due)
        return False
    return True


def rested_on(draft: Draft, row: int, terms: Terms, *, for_others: bool = False) -> bool:
    """The same on the terms of sizes: a job that has trained long is changed rarely, unless it gives for others."""
    estimates, seconds = draft.snapshot.estimates, terms.cool_down
    if terms.cool_down_share and not for_others and estimates.known and estimates.beliefs.rich:
        touched, attained, since = draft.snapshot.jobs.values(row, ("touched", "attained", "since"))
        seconds = max(seconds, terms.cool_down_share * (attained + touched - since))
    return rested(draft, row, seconds)
