"""Gavel's finish-time fairness (`finish_time_fairness_perf`): the job that fares worst fares as well as possible.

How a job fares is its time from submission to its end, as a multiple of that with an even share of the cluster: a part
of every type, as many parts as there are jobs, and never more than all of its time. (Narayanan et al., OSDI 2020,
section 4.2, after Themis.) The multiple is found by halving, with a programme for each.
"""

from __future__ import annotations

import numpy as np

from headway.core.job import JobId
from headway.core.node import FloatArray
from headway.policies.steps.time_shares import by_shares
from headway.policies.steps.type_rounds import Asked, TypeRounds
from headway.policies.value.shares import NEAR, Programme

CLOSE = 1e-4


def gavel_finish_time() -> TypeRounds:
    return by_shares(FinishTime)


class FinishTime:
    """It remembers what each job has done so far would have taken with an even share."""

    def __init__(self) -> None:
        self.before: dict[JobId, tuple[float, float, float]] = {}
        """Seconds left on its first type and with an even share at the last programme, and with one up to then."""

    def __call__(self, asked: Asked) -> FloatArray:
        alone, so_far = self._alone(asked)

        def programme(multiple: float) -> Programme:
            """Every job gains 1 or more where it is done by this multiple of its time with an even share."""
            need = multiple * (so_far + alone) - asked.age
            return Programme(need[:, None] / asked.seconds, asked.width, asked.slots)

        low = float((asked.age / (so_far + alone)).max())
        high = low + 1.0
        while programme(high).most() < 1.0 + NEAR:
            low, high = high, 2.0 * high
        while high - low > CLOSE * high:
            half = (low + high) / 2
            low, high = (low, half) if programme(half).most() >= 1.0 + NEAR else (half, high)
        return programme(high).middle(1.0)

    def _alone(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        """With an even share: seconds left, and what was done so far would have taken. Nothing was done since the last
        programme where more is believed to be left than then.
        """
        parts = asked.slots / len(asked.width) / asked.width[:, None]
        parts /= np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
        alone = 1.0 / (parts / asked.seconds).sum(axis=1)
        first = asked.seconds.min(axis=1)
        so_far = np.zeros(len(alone))
        for job, name in enumerate(asked.ids):
            left, even, had = self.before.get(name, (first[job], 0.0, 0.0))
            so_far[job] = had + even * max(1.0 - first[job] / left, 0.0)
        self.before = dict(
            zip(asked.ids, zip(first.tolist(), alone.tolist(), so_far.tolist(), strict=True), strict=True)
        )
        return alone, so_far
