"""How long a job with a deadline is supposed to take before it has shown its pace.

A deadline says something, too: who gives a job two hours believes that it takes less. So it is supposed to take half of
what it was given, within a factor of about two. What is believed otherwise, such as what similar jobs took, is weighed
with that by how sure it is: a hundred similar jobs that took from minutes to days say little, ten that took an hour
each say nearly all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headway.core.estimates import OVERRUN_SHARE, own_word
from headway.core.flags import any_of
from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot

SHARE = 0.5
"""Of the time from submission to deadline that a job is supposed to take at the size that it asks for."""
SPREAD = 0.5
"""How far that may be off, as a standard deviation of the logarithm."""
SHARP = 0.3
"""A belief with at most this spread stands alone."""
VAGUE = 2.0
"""The spread of a belief that comes without one."""


class Supposed(NamedTuple):
    """Columns by row."""

    left: FloatArray
    """Seconds of training left, where it is or at the asked-for size while it waits; NaN where nothing is known."""
    spread: FloatArray
    """Standard deviation as a share of it; 0 where it is not known."""
    known: BoolArray
    """Whether it rests on more than the deadline and vague similar jobs."""


def supposed(snapshot: Snapshot) -> Supposed:
    estimates, jobs, now = snapshot.estimates, snapshot.jobs, snapshot.now
    trained = jobs.trained_seconds(now)
    left, spread, basis = estimates.left(now), estimates.spread(), estimates.beliefs.basis
    left = np.where((left <= 0.0) & (trained > 0.0), OVERRUN_SHARE * trained, left)
    told, without = ~np.isnan(left), np.isnan(spread)
    shown = told if basis is None else own_word(basis) & told
    known = told & np.where(without, shown, spread <= SHARP)
    spread = np.where(without, np.where(shown, 0.0, VAGUE), spread)
    vague = ~known & np.isfinite(jobs.deadline) & ~jobs.over()
    if any_of(vague):
        rows = vague.nonzero()[0]
        given = jobs.deadline[rows] - jobs.submit[rows]
        left[rows], spread[rows] = _weighed(left[rows], spread[rows], given, trained[rows])
    return Supposed(left, spread, known)


def _weighed(
    left: FloatArray, spread: FloatArray, given: FloatArray, trained: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What is believed and what the deadline says, each by how sure it is. The deadline is an upper bound, too."""
    told, at_least = ~np.isnan(left), OVERRUN_SHARE * np.maximum(trained, 1.0)
    by_deadline = np.maximum(SHARE * given - trained, at_least)
    sure = np.where(told, np.clip(spread, SHARP, 4.0) ** -2.0, 0.0)
    whole = sure + SPREAD**-2.0
    logs = sure * np.log(np.where(told, np.maximum(left, 1e-3), 1.0)) + SPREAD**-2.0 * np.log(by_deadline)
    return np.minimum(np.exp(logs / whole), by_deadline * np.exp(SPREAD)), whole**-0.5
