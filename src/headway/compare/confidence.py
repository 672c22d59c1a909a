"""How far a figure might be elsewhere by chance: bootstrap over seeds where these differ, over jobs where they do not.

Completion times of neighbours in the queue hang together, so jobs are drawn in blocks of neighbours, and for a ratio
the same blocks are drawn for both policies. An interval over jobs tells how much the figure rests on which jobs came;
it does not tell what another trace would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.node import FloatArray

LEVEL = 0.95
DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    over: str
    """What was drawn: seeds or jobs."""

    def as_list(self) -> list[float]:
        return [self.low, self.high]


def of_mean(runs: Sequence[FloatArray]) -> Interval | None:
    """For the mean of one figure per job; one array per seed, not a number where a job has none."""
    return of_ratio(runs, None)


def of_ratio(runs: Sequence[FloatArray], baseline: Sequence[FloatArray] | None) -> Interval | None:
    """For the ratio of two means over the jobs that have both; for the mean itself without a baseline."""
    pairs = [_both(run, None if baseline is None else baseline[number]) for number, run in enumerate(runs)]
    pairs = [pair for pair in pairs if pair.shape[1]]
    if not pairs:
        return None
    each = np.array([_figure(pair.mean(axis=1)) for pair in pairs])
    if np.isnan(each).any():
        return None
    over = "seeds" if len(each) > 1 and float(np.ptp(each)) > 1e-9 * float(np.abs(each).max()) else "jobs"
    generator = np.random.default_rng(0)
    if over == "seeds":
        drawn = each[generator.integers(len(each), size=(DRAWS, len(each)))].mean(axis=1)
    else:
        drawn = _draw_blocks(pairs[0], generator)
    low, high = np.percentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(low), float(high), over)


def _both(run: FloatArray, other: FloatArray | None) -> FloatArray:
    if other is None:
        return np.stack([run, np.ones_like(run)])[:, ~np.isnan(run)]
    return np.stack([run, other])[:, ~np.isnan(run) & ~np.isnan(other)]


def _figure(means: FloatArray) -> Any:
    return np.divide(means[0], means[1], out=np.full_like(means[0], np.nan), where=means[1] != 0)


def _draw_blocks(pair: FloatArray, generator: np.random.Generator) -> FloatArray:
    count = pair.shape[1]
    size = max(1, round(count ** (1 / 3)))
    edges = np.arange(0, count, size)
    sums = np.add.reduceat(pair, edges, axis=1)
    picks = generator.integers(len(edges), size=(DRAWS, len(edges)))
    one, other = sums[0][picks].sum(axis=1), sums[1][picks].sum(axis=1)
    figures: FloatArray = np.divide(one, other, out=np.zeros_like(one), where=other != 0)
    return figures
