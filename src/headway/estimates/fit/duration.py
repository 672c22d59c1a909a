"""How long will a job train that has not run yet? From what like jobs took.

`Durations` keeps a running histogram for each kind of job, from the most alike (user, queue, model, size) to all jobs,
and answers with quantiles of the most alike kind that has enough. It is robust: one job of a month among a hundred of
an hour moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headway.core.job import Job
from headway.core.node import FloatArray

ENOUGH = 5
"""Jobs of a kind before it is asked."""
BINS_PER_OCTAVE = 4
BINS = 26 * BINS_PER_OCTAVE
"""From one second to two years."""
MEMORY = 200.0
"""Jobs of a kind after which an old one weighs a third."""
LEAST_LEFT = 0.1
"""A job that has trained so long trains at least this share of it on."""

Kind = tuple[object, ...]


def kinds(job: Job) -> tuple[Kind, ...]:
    """From the most alike to all; names are passed over where a job has none."""
    size = job.replicas.bit_length()
    found: list[Kind] = []
    if job.user and job.model:
        found.append(("user", job.user, job.model, size))
    if job.queue and job.model:
        found.append(("queue", job.queue, job.model, size))
    if job.user:
        found.append(("user", job.user, size))
    if job.model:
        found.append(("model", job.model, size))
    if job.queue:
        found.append(("queue", job.queue, size))
    return (*found, ("size", size), ("all",))


def place_of(seconds: float) -> int:
    """The bin."""
    return min(BINS - 1, max(0, int(BINS_PER_OCTAVE * math.log2(max(1.0, seconds)))))


def place_of_all(seconds: FloatArray) -> npt.NDArray[np.int64]:
    """The bins of many."""
    return np.minimum(BINS - 1, (BINS_PER_OCTAVE * np.log2(np.maximum(1.0, seconds))).astype(np.int64))


def edge_of(place: int) -> float:
    """Where a bin begins; 0 for the time before the first."""
    return float(2.0 ** (place / BINS_PER_OCTAVE)) if place >= 0 else 0.0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by logarithm of seconds, newer jobs weighing more."""

    count: int = 0
    weights: Mapping[int, float] = field(default_factory=dict)

    def add(self, seconds: float) -> Histogram:
        keep = 1.0 - 1.0 / MEMORY
        weights = {place: weight * keep for place, weight in self.weights.items() if weight > 1e-3}
        place = place_of(seconds)
        weights[place] = weights.get(place, 0.0) + 1.0
        return Histogram(self.count + 1, weights)

    def beyond(self, seconds: float) -> Histogram:
        """Of the jobs that took at least so long. Where none did, as long again is as likely as not."""
        first = place_of(seconds) if seconds >= 1.0 else 0
        kept = {place: weight for place, weight in self.weights.items() if place >= first}
        return Histogram(self.count, kept or {min(BINS - 1, first + BINS_PER_OCTAVE): 1.0})

    def left(self, attained: float) -> tuple[float, float]:
        """Median seconds left of a job that has trained so long, and their spread as a share (from the quartiles).

        Changes only where `attained` passes from one bin into the next; within a bin the seconds burn down.
        """
        since = edge_of(place_of(attained)) if attained >= 1.0 else 0.0
        rest = self.beyond(since) if since else self
        low, middle, high = (max(rest.quantile(share) - since, LEAST_LEFT * since) for share in (0.25, 0.5, 0.75))
        return middle, max(0.1, math.log(high / max(low, 1e-9)) / 1.35)

    def quantile(self, share: float) -> float:
        """Seconds, by interpolation inside the bin."""
        wanted, seen = share * sum(self.weights.values()), 0.0
        for place, weight in sorted(self.weights.items()):
            if seen + weight >= wanted:
                return float(2.0 ** ((place + (wanted - seen) / weight) / BINS_PER_OCTAVE))
            seen += weight
        return math.nan


@dataclass(frozen=True, slots=True)
class Durations:
    histograms: Mapping[Kind, Histogram] = field(default_factory=dict)

    def add(self, job: Job, seconds: float) -> Durations:
        changed = dict(self.histograms)
        for kind in kinds(job):
            changed[kind] = changed.get(kind, Histogram()).add(seconds)
        return Durations(changed)

    def most_alike(self, job: Job) -> Histogram | None:
        """Of the most alike kind that has enough jobs."""
        for kind in kinds(job):
            histogram = self.histograms.get(kind)
            if histogram is not None and histogram.count >= ENOUGH:
                return histogram
        return None
