"""A distribution of training times: shares of jobs by bins of the logarithm of seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.core.node import FloatArray

BINS_PER_OCTAVE = 4
BINS = 26 * BINS_PER_OCTAVE
"""From one second to two years."""
LEAST_LEFT = 0.1
"""A job is expected to train on for at least this share of what it has trained."""
QUARTILES = np.array([0.25, 0.5, 0.75])
LOGARITHMS = (np.arange(BINS) + 0.5) * math.log(2.0) / BINS_PER_OCTAVE
"""Of seconds in the middle of each bin."""


def place_of(seconds: float) -> int:
    """The bin of a duration."""
    return min(BINS - 1, max(0, int(BINS_PER_OCTAVE * math.log2(max(1.0, seconds)))))


def place_of_all(seconds: FloatArray) -> npt.NDArray[np.int64]:
    """The bins of many durations."""
    return np.minimum(BINS - 1, (BINS_PER_OCTAVE * np.log2(np.maximum(1.0, seconds))).astype(np.int64))


def edge_of(place: int) -> float:
    """Where a bin begins; 0 for the time before the first bin."""
    return float(2.0 ** (place / BINS_PER_OCTAVE)) if place >= 0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    shares: FloatArray
    """By bin; they add up to one."""

    @classmethod
    def of(cls, weights: Mapping[int, float]) -> Lengths:
        shares = np.zeros(BINS)
        shares[list(weights)] = list(weights.values())
        return cls(shares / shares.sum())

    def leaning(self, other: Lengths, weight: float) -> Lengths:
        """A mixture in which the other has this weight, from 0 to 1."""
        return self if weight <= 0.0 else Lengths(self.shares + weight * (other.shares - self.shares))

    def mean_log(self) -> float:
        """Mean of the logarithms of seconds."""
        return float(self.shares @ LOGARITHMS)

    def left(self, attained: float) -> tuple[float, float]:
        """Median seconds left of a job that has trained this long, and their spread as a share (from the quartiles).

        They change only where `attained` enters the next bin; inside a bin the seconds burn down. Where no job took
        that long, it is expected to take as long again.
        """
        first = place_of(attained) if attained >= 1.0 else 0
        since = edge_of(first) if attained >= 1.0 else 0.0
        low, middle, high = np.maximum(self._beyond(first, QUARTILES) - since, LEAST_LEFT * since).tolist()
        return middle, max(0.1, math.log(high / max(low, 1e-9)) / 1.35)

    def quantile(self, share: float) -> float:
        """Seconds, interpolated inside the bin."""
        return float(self._beyond(0, np.array([share]))[0])

    def _beyond(self, first: int, shares: FloatArray) -> FloatArray:
        """Quantiles of the jobs from this bin on."""
        summed = np.cumsum(self.shares[first:])
        if summed[-1] <= 0.0:
            return 2.0 ** ((min(BINS - 1, first + BINS_PER_OCTAVE) + shares) / BINS_PER_OCTAVE)
        wanted = shares * summed[-1]
        found = np.minimum(np.searchsorted(summed, wanted), len(summed) - 1)
        inside = 1.0 - (summed[found] - wanted) / self.shares[first + found]
        return np.asarray(2.0 ** ((first + found + inside) / BINS_PER_OCTAVE))
