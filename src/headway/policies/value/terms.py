"""On what terms sizes are changed: what a change must bring, and how long a job is left alone after it."""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.draft import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms the size of jobs is changed."""

    cool_down: float = 60.0
    """Seconds for which a job is left as it is after a decision about it."""
    calm: float = 0.0
    """Share of what it has trained for which a job is left as it is after a decision, where that is longer: the longer
    it runs, the rarer it is changed. Only where estimates are learnt from progress, and so change themselves; those who
    shrink for others are not spared by it."""
    restart: float = 30.0
    """Seconds that a change is taken to cost: it must save more than that."""
    margin: float = 0.10
    """By how much a gain must exceed what others lose for it; added replicas must bring this share of what they would
    bring if speed grew in proportion."""
    favour: float = 1.0
    """How much what is soon done is preferred: 0 not at all, 1 by one over the seconds left."""
    affinity: bool = True
    """Whether replicas go next to their own, on few nodes."""


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
