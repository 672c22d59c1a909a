"""Leaving a job alone for a while after each decision about it."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.policies.value.worth import Terms


def rested(draft: Draft, row: int, terms: Terms, *, for_others: bool = False) -> bool:
    """Whether the job has been left alone for long enough; asks to be called when it will have been."""
    jobs, now = draft.snapshot.jobs, draft.snapshot.now
    rest = terms.cool_down
    estimates = draft.snapshot.estimates
    if terms.calm and not for_others and estimates.known and estimates.beliefs.rich:
        touched, attained, since = jobs.values(row, ("touched", "attained", "since"))
        rest = max(rest, terms.calm * (attained + touched - since))
    else:
        touched = jobs.value(row, "touched")
    if now < touched + rest:
        draft.wake(touched + rest)
        return False
    return True
