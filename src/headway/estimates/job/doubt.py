"""Which reports are believed. Each odd report is a strike: three end belief, and a series of clean reports restores it.

A script's reports may be wrong because of a bug, a clock, or on purpose: many policies serve a job first that seems
nearly done. A job in doubt is treated as a job that does not report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.estimates import Basis
from headway.core.snapshot import Sample
from headway.estimates.job.pace import Pace

STRIKES = 3.0
"""Belief ends at this many strikes."""
FORGIVEN = 1.0
"""Belief is restored below this many strikes."""
CLEAN = 0.9
"""A clean report multiplies the strikes by this."""
CLOCK_SECONDS = 5.0
"""Clocks may differ by this."""
OUT_OF_PROPORTION = 20.0
"""A measured job does not become this many times faster from one report to the next."""
MOST_STEPS = 1 << 53
"""No counter of steps goes beyond this."""
PATIENCE_SECONDS = 180.0
PATIENCE_REPORTS = 10.0
PATIENCE_UNKNOWN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Doubt:
    strikes: float = 0.0
    basis: Basis | None = None
    """Why the job is not believed; None while it is believed."""
    last: Basis | None = None
    """The reason of the last strike."""

    def strike(self, why: Basis) -> Doubt:
        strikes = min(2.0 * STRIKES, self.strikes + 1.0)
        return Doubt(strikes, why if strikes >= STRIKES or self.basis is not None else None, why)

    def clean(self) -> Doubt:
        if not self.strikes:
            return self
        strikes = self.strikes * CLEAN
        if strikes < 0.1:
            return NO_DOUBT
        return Doubt(strikes, None if strikes < FORGIVEN else self.basis, self.last)


NO_DOUBT = Doubt()


def impossible(sample: Sample, last_at: float, now: float) -> Basis | None:
    """Why a report must be ignored; None where it is possible."""
    if not math.isfinite(sample.at) or sample.at > now + CLOCK_SECONDS or sample.at < last_at - CLOCK_SECONDS:
        return Basis.CLOCK
    if sample.step < 0:
        return Basis.BACKWARDS
    return Basis.ERRATIC if sample.step > MOST_STEPS else None


def odd(sample: Sample, step: int, total: int | None, pace: Pace) -> Basis | None:
    """Why a report is odd: it is used, but counts as a strike. `step` and `total` are those reported before."""
    if sample.step < step:
        return Basis.BACKWARDS
    if sample.total_steps is not None and (sample.total_steps <= 0 or (total and sample.total_steps != total)):
        return Basis.ERRATIC
    claimed = sample.total_steps or total
    if claimed and sample.step > claimed * 1.02 + 1:
        return Basis.OVERRUN
    if sample.step - step > 10 and pace.count >= 4 and pace.both > 0:
        expected = max(sample.at - pace.last, pace.gap) * pace.both / pace.seconds2
        if sample.step - step > OUT_OF_PROPORTION * expected + 10:
            return Basis.ERRATIC
    return None


def patience(pace: Pace) -> float:
    """Seconds without a report after which a training job counts as silent."""
    return max(PATIENCE_SECONDS, PATIENCE_REPORTS * pace.gap) if pace.gap > 0 else PATIENCE_UNKNOWN_SECONDS
