"""Gavel's max-min fairness (`max_min_fairness_perf`): what the job gains that gains least is as large as possible.

What a job gains is its speed by its shares, as a multiple of its speed with its time divided over all types as there
are accelerators of each, times its accelerators. (Narayanan et al., OSDI 2020, section 4.1.) It needs to know how fast
jobs are on each type, and not how long they are.
"""

from __future__ import annotations

from headway.core.node import FloatArray
from headway.policies.steps.time_shares import by_shares
from headway.policies.steps.type_rounds import Asked, TypeRounds
from headway.policies.value.shares import Programme


def gavel_max_min() -> TypeRounds:
    return by_shares(lambda: max_min)


def max_min(asked: Asked) -> FloatArray:
    speed = 1.0 / asked.seconds
    even = speed @ (asked.slots / asked.slots.sum())
    programme = Programme(speed * (asked.width / even)[:, None], asked.width, asked.slots)
    return programme.middle(programme.most())
