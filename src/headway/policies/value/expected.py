"""How many seconds a job is expected to take, whatever is known of it: one number for every job.

A job that has shown its pace, or whose user declared its length, has its time left. Of a new job only the lengths of
similar jobs are known, and most jobs are short. So what counts is the cheapest try: run the job until it shows its
pace, and go on only if it turns out to be short. What does that cost for each job that gets done? With lengths that are
log-normal about a median, and a limit up to which a job goes on, the cost is

    (trial + seconds spent on those within the limit) / (share of those within it)      at the limit that is cheapest.

It is small where lengths differ much, so that new jobs are soon tried. It is the median where similar jobs are all
alike. A job that has not shown its length in its trial must run up to the limit before it does: that is then spent on
jobs beyond the limit. A job that is not believed counts as one that does not report.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.estimates import OVERRUN_SHARE, odd, own_word
from headway.core.flags import any_of
from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.times import Rows, seconds_left

ANY_LENGTH = 2.0
"""Spread of lengths where nothing is known: two thirds of them within a factor of seven and a half."""
_LIMITS = np.linspace(-3.0, 3.0, 25)


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Columns, aligned with the rows that were asked for."""

    seconds: FloatArray
    """Seconds to get the job done at the asked-for size, from where it is."""
    shown: BoolArray
    """Whether the job or its user says so; otherwise it comes from similar jobs, or nothing is known."""
    odd: BoolArray
    """Whether the job reports, but is not believed."""
    median: FloatArray
    """Without a try: the median of what is left."""


def expected(snapshot: Snapshot, rows: Rows, trial: float) -> Expected:
    """`trial`: seconds in which a job shows its pace. Without any estimates a job needs as long again as it has
    trained.
    """
    jobs, now, estimates = snapshot.jobs, snapshot.now, snapshot.estimates
    trained = jobs.trained_seconds(now)[rows]
    if not estimates.known:
        none, nan = np.zeros(len(rows), np.bool_), np.full(len(rows), np.nan)
        again = np.maximum(trained, trial)
        return Expected(cheapest_try(nan, nan, trained, trial, told=none), none, none, again)
    left, basis = seconds_left(snapshot, rows), estimates.beliefs.basis
    told = ~np.isnan(left)
    if basis is None:
        shown, doubted = told, np.zeros(len(rows), np.bool_)
    else:
        bases = basis[rows]
        shown, doubted = own_word(bases) & told, odd(bases)
    seconds = np.where((left <= 0.0) & (trained > 0.0), OVERRUN_SHARE * trained, left)
    median = np.where(told, seconds, np.maximum(trained, trial))
    vague = (~shown).nonzero()[0]
    if len(vague):
        spread = estimates.spread()[rows[vague]]
        had = trained[vague]
        seconds[vague] = cheapest_try(seconds[vague], spread, had, trial, told=had < trial)
    return Expected(seconds, shown, doubted, median)


def cheapest_try(
    median: FloatArray, spread: FloatArray, trained: FloatArray, trial: float, *, told: BoolArray
) -> FloatArray:
    """Cost of running jobs up to a limit, for each job that gets done, at the limit where that is cheapest.

    `told`: a trial shows the length, so that no more than a trial is spent on jobs beyond the limit. Other jobs run up
    to it. Where nothing is known, a job needs as long again as it has trained, at least a trial.
    """
    unknown = np.isnan(median)
    middle = np.where(unknown, np.maximum(trained, trial), np.maximum(median, 1e-3))
    sigma = np.where(unknown | np.isnan(spread), ANY_LENGTH, np.clip(spread, 1e-3, 4.0))
    within = _WITHIN
    spreads, which = np.unique(sigma, return_inverse=True)  # jobs alike have the same
    below = _normal(_LIMITS - spreads[:, None])
    spent = (middle * np.exp(sigma**2 / 2))[:, None] * below[which]
    costs: FloatArray = np.empty(spent.shape)
    costs[told] = spent[told] + trial
    untold = ~told
    if any_of(untold):
        limits = np.exp(spreads[:, None] * _LIMITS)
        costs[untold] = spent[untold] + middle[untold, None] * limits[which[untold]] * (1.0 - within)
    best: FloatArray = (costs / within).min(axis=1)
    return best


def _normal(z: FloatArray) -> FloatArray:
    """The share of a normal distribution below `z`, by a logistic curve that is off by less than a hundredth."""
    share: FloatArray = 1.0 / (1.0 + np.exp(-1.5976 * z - 0.07056 * z**3))
    return share


_WITHIN = _normal(_LIMITS)
