"""What one job's own reports say of the time left."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.estimates import Basis
from headway.estimates.fit.pace import Guess
from headway.estimates.fit.target import Length

CURVE_SPREAD = 0.6
"""Spread of a prediction of when a loss stops falling."""
MOST_SPREAD = 2.0
"""Max spread: close to a target, or past where it was expected, what is left is unknown."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What one job's own reports say of the time left."""

    basis: Basis
    left: float = math.nan
    at: float = 0.0
    spread: float = math.nan


def to_target(way: Length, step: float, total: int | None, guess: Guess, at: float) -> Belief:
    """Time left to the target, or to the last step if that comes first."""
    end = min(way.median, total or math.inf)
    left = max(0.0, end - step)
    spread = way.spread * end / left if left > 0 else MOST_SPREAD
    return Belief(Basis.TARGET, left * guess.seconds, at, min(MOST_SPREAD, math.hypot(guess.spread, spread)))
