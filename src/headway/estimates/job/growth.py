"""How fast a model still improves, compared with how fast it once did: progressing, watching or converging.

Growth is improvement per second and replica, as a share of the job's own max. Only a new best loss counts, so a loss
that swings gains nothing. Two slow intervals in a row make a job converging. The way back is harder: first growth of
twice the threshold, then one more interval above it. So noise around the threshold changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.estimates import Growth

ALPHA = 0.1
"""A job is slow below this share of its own best growth."""
BACK = 2.0
"""A converging job is watched again from this many times the threshold on."""
INTERVAL_SECONDS = 10.0
INTERVAL_SHARE = 0.02
"""Min length of an interval as a share of the time since the first report: growth slows down, noise does not."""


def next_class(now: Growth, growth: float, alpha: float = ALPHA) -> Growth:
    """The class after one more interval."""
    match now:
        case Growth.CONVERGING:
            return Growth.WATCHING if growth >= BACK * alpha else Growth.CONVERGING
        case Growth.WATCHING:
            return Growth.PROGRESSING if growth >= alpha else Growth.CONVERGING
        case _:
            return Growth.PROGRESSING if growth >= alpha else Growth.WATCHING


@dataclass(frozen=True, slots=True)
class Grower:
    """The growth of one job."""

    began: float
    interval: float
    """When the present interval began."""
    since: float
    total: float = 0.0
    count: int = 0
    best: float = math.inf
    """The lowest mean loss of an interval so far."""
    max: float = 0.0
    """The fastest growth so far."""
    kind: Growth = Growth.UNKNOWN

    @classmethod
    def beginning(cls, at: float) -> Grower:
        return cls(at, at, at)

    def add(self, at: float, loss: float, replicas: int) -> Grower:
        if not math.isfinite(loss):
            return self
        length = at - self.interval
        if length < max(INTERVAL_SECONDS, INTERVAL_SHARE * (at - self.began)) or not self.count:
            total, count = self.total + loss, self.count + 1
            return Grower(self.began, self.interval, self.since, total, count, self.best, self.max, self.kind)
        mean = self.total / self.count
        best = min(mean, self.best)
        if not math.isfinite(self.best):
            return Grower(self.began, at, self.since, loss, 1, best, self.max, self.kind)
        rate = max(0.0, self.best - mean) / length / max(1, replicas)
        most = max(rate, self.max)
        kind = next_class(self.kind, rate / most) if most > 0 else Growth.WATCHING
        return Grower(self.began, at, at if kind is not self.kind else self.since, loss, 1, best, most, kind)
