"""What a deadline asks of a job: in which sizes it would be in time, with how much to spare, and with what chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headway.core.estimates import OVERRUN_SHARE, Counts
from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.sizes import bounds, capacity, demand, dominant_share, held, ladder

FINE = 12
"""Up to so many sizes of one role are all tried; beyond that, doublings and the sizes half-way between them."""


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """One job's sizes, the smallest first, each faster than the one before it; and what is left of it."""

    row: int
    counts: list[Counts]
    shares: FloatArray
    """Of the cluster, the largest of any kind."""
    speeds: FloatArray
    """Relative to the asked-for size."""
    work: float
    """Seconds left at the asked-for size; not a number where nobody knows."""
    spread: float
    """Standard deviation of the work as a share of it; 0 where nobody knows."""
    delay: float
    """Seconds before it trains, where it must first be started."""
    deadline: float
    """Infinity where it has none."""

    def seconds(self, size: int) -> float:
        """Until it is done in this size."""
        return self.delay + self.work / max(float(self.speeds[size]), 1e-9)

    def least(self, seconds: float) -> int | None:
        """The least satisfactory size: the smallest that is done in so many seconds, or None."""
        sizes = np.flatnonzero(self.delay + self.work / np.maximum(self.speeds, 1e-9) <= seconds)
        return int(sizes[0]) if len(sizes) else None

    def chance(self, seconds: float) -> float:
        """That it is done in so many seconds if it has the whole cluster to itself."""
        takes = self.seconds(len(self.counts) - 1)
        if self.spread <= 0 or self.work <= 0:
            return 1.0 if takes <= seconds else 0.0
        deviations = (seconds - takes) / (self.spread * max(takes - self.delay, 1e-9))
        return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))

    def area(self, seconds: float) -> float:
        """Share of the cluster times seconds that it takes at the least size that is in time, or at its cheapest."""
        size = self.least(seconds)
        if size is None:
            size = len(self.counts) - 1
        return float(self.shares[size]) * self.seconds(size)

    def size_of(self, counts: Counts) -> int:
        """The largest of its sizes that is not above these counts."""
        below = [number for number, size in enumerate(self.counts) if sum(size) <= sum(counts)]
        return below[-1] if below else 0


def needs(snapshot: Snapshot, rows: list[int], restart: float) -> dict[int, Need]:
    """By row. Starting a job costs `restart` seconds."""
    whole, left, spread = capacity(snapshot), snapshot.estimates.left(snapshot.now), snapshot.estimates.spread()
    speed, trained = snapshot.estimates.speed, snapshot.jobs.trained_seconds(snapshot.now)
    left = np.where((left <= 0.0) & (trained > 0.0), OVERRUN_SHARE * trained, left)
    made = {}
    for row in rows:
        now = held(snapshot, row)
        counts, speeds = _worthwhile(snapshot, row)
        shares = np.array([dominant_share(demand(snapshot, row, size), whole) for size in counts])
        work = float(left[row]) * (1.0 if now is None else speed(row, now))
        uncertain = float(spread[row])
        made[row] = Need(
            row, counts, shares, np.array(speeds), work, 0.0 if math.isnan(uncertain) else uncertain,
            restart if now is None else 0.0, float(snapshot.jobs.deadline[row]),
        )  # fmt: skip
    return made


def _worthwhile(snapshot: Snapshot, row: int) -> tuple[list[Counts], list[float]]:
    """Sizes that are faster than every smaller one, and their speeds."""
    counts, speeds = list[Counts](), list[float]()
    for size in _sizes(snapshot, row):
        speed = snapshot.estimates.speed(row, size)
        if not counts or speed > speeds[-1] * (1.0 + 1e-6):
            counts.append(size)
            speeds.append(speed)
    return counts, speeds


def _sizes(snapshot: Snapshot, row: int) -> list[Counts]:
    least, most = bounds(snapshot, row)
    elastic = [role for role, (low, high) in enumerate(zip(least, most, strict=True)) if high > low]
    if not elastic:
        return [least]
    if len(elastic) > 1:
        return ladder(snapshot, row)
    role, low, high = elastic[0], least[elastic[0]], most[elastic[0]]
    if high - low < FINE:
        amounts = list(range(low, high + 1))
    else:
        asked = snapshot.jobs.shape_at(row).counts[role]
        powers = [2**power for power in range(high.bit_length())]
        wanted = {low, high, asked, *powers, *(3 * power for power in powers)}
        amounts = sorted(amount for amount in wanted if low <= amount <= high)
    return [(*least[:role], amount, *least[role + 1 :]) for amount in amounts]
