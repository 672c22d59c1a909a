"""How long will it take to get a job done, whatever is known of it: one number of seconds for every job.

A job that has shown its pace, or whose user declared it, has what is left of it. Of one that has not, only what like
jobs took is known, and most are short: what counts is the cheapest try. Run it for as long as it takes to show its
pace; go on if it turns out to be short; what does that cost for each job that is done? With seconds that are
log-normal about a median, and a limit at which one goes on or not, that is

    (trial + seconds spent on those within the limit) / (share of those within it)      at the limit that is cheapest.

It is small where lengths differ much, so that new jobs are soon tried, and the median where like jobs are all alike.
A job that has had its trial and told nothing, or is not believed, runs up to the limit before one knows: that is what
is then spent on those beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.estimates import OVERRUN_SHARE, odd, own_word
from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.times import Rows, seconds_left

ANY_LENGTH = 2.0
"""Spread of lengths where nobody knows: two thirds of them within a factor of seven and a half."""
_LIMITS = np.linspace(-3.0, 3.0, 25)


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Aligned with the rows that were asked about."""

    seconds: FloatArray
    """To get it done at the asked-for size, from where it is."""
    shown: BoolArray
    """Whether that is what the job or its user says; otherwise it is what like jobs took, or nothing at all."""
    odd: BoolArray
    """Whether it reports, but is not believed."""
    median: FloatArray
    """Without a try: what is left of it, as likely as not."""


def expected(snapshot: Snapshot, rows: Rows, trial: float) -> Expected:
    """`trial`: seconds that a job takes to show its pace. Without any estimates what a job has had is doubled."""
    jobs, now, estimates = snapshot.jobs, snapshot.now, snapshot.estimates
    trained = jobs.trained_seconds(now)[rows]
    if not estimates.known:
        none, nan = np.zeros(len(rows), np.bool_), np.full(len(rows), np.nan)
        again = np.maximum(trained, trial)
        return Expected(cheapest_try(nan, nan, trained, trial, told=none), none, none, again)
    left, basis = seconds_left(snapshot, rows), estimates.beliefs.basis
    if basis is None:
        shown, doubted = ~np.isnan(left), np.zeros(len(rows), np.bool_)
    else:
        shown, doubted = own_word(basis[rows]) & ~np.isnan(left), odd(basis[rows])
    seconds = np.where((left <= 0.0) & (trained > 0.0), OVERRUN_SHARE * trained, left)
    median = np.where(np.isnan(seconds), np.maximum(trained, trial), seconds)
    vague = np.flatnonzero(~shown)
    if len(vague):
        spread = estimates.spread()[rows[vague]]
        told = (trained[vague] < trial) & ~doubted[vague]
        seconds[vague] = cheapest_try(seconds[vague], spread, trained[vague], trial, told=told)
    return Expected(seconds, shown, doubted, median)


def cheapest_try(
    median: FloatArray, spread: FloatArray, trained: FloatArray, trial: float, *, told: BoolArray
) -> FloatArray:
    """What it costs, for each that is done, to run jobs up to a limit: at the limit at which that is least.

    `told`: a trial tells how long the job is, so that no more than that is spent on those beyond the limit; others run
    up to it. Where nothing is known a job is taken to need as long again as it has trained, at least a trial.
    """
    unknown = np.isnan(median)
    middle = np.where(unknown, np.maximum(trained, trial), np.maximum(median, 1e-3))
    sigma = np.where(unknown | np.isnan(spread), ANY_LENGTH, np.clip(spread, 1e-3, 4.0))
    within = _normal(_LIMITS)
    spent = (middle * np.exp(sigma**2 / 2))[:, None] * _normal(_LIMITS - sigma[:, None])
    beyond = middle[:, None] * np.exp(sigma[:, None] * _LIMITS) * (1.0 - within)
    costs: FloatArray = ((spent + np.where(told[:, None], trial, beyond)) / within).min(axis=1)
    return costs


def _normal(z: FloatArray) -> FloatArray:
    """The share below so many standard deviations; by a logistic curve that is off by less than a hundredth."""
    share: FloatArray = 1.0 / (1.0 + np.exp(-1.5976 * z - 0.07056 * z**3))
    return share
