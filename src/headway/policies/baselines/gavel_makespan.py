"""Gavel's makespan policy (`min_total_duration_perf`): all jobs that are there are done as soon as possible.

As in its simulator the end is found by halving, from 100 s and 1,000,000 s, until the two ends are within 5 %: it is up
to 5 % later than possible, and jobs have the shares in the middle of those that reach it. (Narayanan et al., OSDI 2020,
section 4.2.)
"""

from __future__ import annotations

from headway.core.node import FloatArray
from headway.policies.steps.time_shares import by_shares
from headway.policies.steps.type_rounds import Asked, TypeRounds
from headway.policies.value.shares import NEAR, Programme


def gavel_makespan() -> TypeRounds:
    return by_shares(lambda: soonest)


def soonest(asked: Asked) -> FloatArray:
    longest = asked.seconds.min(axis=1).max()
    programme = Programme(longest / asked.seconds, asked.width, asked.slots)
    possible = longest / (programme.most() * (1.0 - NEAR))
    return programme.middle(longest / _halved(possible))


def _halved(possible: float) -> float:
    low, high = 100.0, max(1e6, possible)
    while 1.05 * low < high:
        half = (low + high) / 2
        low, high = (low, half) if half >= possible else (half, high)
    return high
