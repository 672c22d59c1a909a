"""What running at a speed is worth: the one formula, for a job and for columns of jobs.

    worth = speed x share^(1 - favour) x max(seconds of work, speed x restart)^(-favour)

Work is the seconds left at the asked-for size. No job is taken to be done sooner than a change takes: one that is
nearly over is worth none. Powers are taken one by one, because those of a whole column differ in the last bit.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from headway.core.estimates import OVERRUN_SHARE
from headway.core.flags import any_of
from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.terms import Terms
from headway.policies.value.times import Rows

Numbers = TypeVar("Numbers", float, FloatArray)
MIN_SHARE, MAX_SHARE = 1e-9, 1e6
"""Shares of the cluster are above 0 and finite, so that they can be divided by."""


def worth(speed: Numbers, share_weight: Numbers, time_weight: Numbers) -> Numbers:
    """Of speeds above 0."""
    return speed * share_weight * time_weight


def share_weight(share: float, terms: Terms) -> float:
    return float(share ** (1.0 - terms.favour))


def time_weight(seconds: float, terms: Terms) -> float:
    return float(max(seconds, 1e-300) ** -terms.favour)


def soonest(speed: Numbers, terms: Terms) -> Numbers:
    """Work that is done at this speed while a change takes."""
    return speed * max(terms.restart, 1.0)


def column(speed: FloatArray, share_weights: FloatArray, work: FloatArray, weights: FloatArray, terms: Terms) -> (
    FloatArray
):  # fmt: skip
    """The worth of many jobs; `weights`: `time_weight` of their work."""
    at_once = soonest(speed, terms)
    short = work < at_once
    if any_of(short):
        weights = np.broadcast_to(weights, speed.shape).copy()
        weights[short] = [time_weight(seconds, terms) for seconds in at_once[short].tolist()]
    value = worth(speed, share_weights, weights)
    value[speed <= 0.0] = 0.0
    return value


def bounded(share: FloatArray) -> FloatArray:
    return np.minimum(np.maximum(share, MIN_SHARE, out=share), MAX_SHARE, out=share)


def overrun(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Seconds left of jobs that should be done by now: a share of what they have trained."""
    jobs = snapshot.jobs
    trained = jobs.attained[rows] + np.maximum(0.0, snapshot.now - jobs.since[rows])
    seconds: FloatArray = OVERRUN_SHARE * trained
    return seconds
