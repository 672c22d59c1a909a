"""The conditions for changing the size of jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions for changing the size of jobs."""

    cool_down: float = 60.0
    """Seconds for which a job is left as it is after a decision about it."""
    cool_down_share: float = 0.0
    """Share of what it has trained for which a job is left as it is after a decision, where that is longer. So a job is
    changed more rarely the longer it runs. Used only where estimates are learnt from progress, and so change
    themselves; jobs that shrink for others are not spared by it.
    """
    restart: float = 30.0
    """Seconds that a change is taken to cost. It must save more than that."""
    margin: float = 0.10
    """By how much a gain must exceed what others lose for it. Added replicas must bring this share of what they would
    bring if speed grew in proportion.
    """
    favour: float = 1.0
    """How much jobs that are soon done are preferred: 0 not at all, 1 by one over the seconds left."""
    affinity: bool = True
    """Whether replicas go next to the job's own ones, on few nodes."""
