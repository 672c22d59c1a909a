"""Paired log-ratios per window, their intervals by bootstrap over windows, and who got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.node import FloatArray
from headway.record.results import Outcome

WORSE = 1.05
"""A job got worse that takes this many times as long, or longer."""


@dataclass(frozen=True, slots=True)
class StepChange:
    """One step against the one before it: ratios below one are shorter."""

    windows: int
    ratio: float
    low: float
    high: float
    worst: float
    """The largest ratio of one window."""
    worse_windows: int
    worse_jobs: float
    """Share of the jobs that take 5 % longer or more."""

    def as_json(self) -> dict[str, float | int]:
        return {"windows": self.windows, "ratio": self.ratio, "low": self.low, "high": self.high, "worst": self.worst,
                "worse windows": self.worse_windows, "worse jobs": self.worse_jobs}  # fmt: skip


def mean_of(one: Outcome) -> float:
    done = one.completion[one.finished]
    return float(done.mean()) if len(done) else math.inf


def slowest_of(one: Outcome, share: float) -> float:
    """The mean of the slowest jobs."""
    done = np.sort(one.completion[one.finished])
    return float(done[-max(1, round(share * len(done))) :].mean()) if len(done) else math.inf


def interval(logs: FloatArray, draws: int, level: float, seed: int) -> tuple[float, float]:
    """Of the mean, by drawing windows."""
    chance = np.random.default_rng(seed)
    means = logs[chance.integers(len(logs), size=(draws, len(logs)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(np.exp(low)), float(np.exp(high))


def change(
    after: Sequence[Mapping[str, Outcome]], before: Sequence[Mapping[str, Outcome]], level: float, draws: int, seed: int
) -> StepChange:
    """`after` and `before`: for each window one or more runs, by name; several are averaged window by window."""
    logs = np.array([
        np.mean([math.log(mean_of(one)) for one in later.values()])
        - np.mean([math.log(mean_of(one)) for one in earlier.values()])
        for later, earlier in zip(after, before, strict=True)
    ])  # fmt: skip
    low, high = interval(logs, draws, level, seed)
    return StepChange(
        len(logs), float(np.exp(logs.mean())), low, high, float(np.exp(logs.max())), int((logs > 0).sum()),
        float(np.mean([_worse(later, earlier) for later, earlier in zip(after, before, strict=True)])),
    )  # fmt: skip


def _worse(later: Mapping[str, Outcome], earlier: Mapping[str, Outcome]) -> float:
    base = next(iter(earlier.values()))
    return float(np.mean([_share_worse(one, base) for one in later.values()]))


def _share_worse(one: Outcome, base: Outcome) -> float:
    both = one.finished & base.finished
    return float((one.completion[both] > WORSE * base.completion[both]).mean()) if both.any() else math.nan
