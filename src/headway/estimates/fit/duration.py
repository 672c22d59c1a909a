"""How long will a job train that has not run yet? By how long like jobs took.

`Durations` keeps a running histogram for each kind of job, from the most alike (user, queue, model, size) to all jobs.
The most alike kind with enough jobs answers. This is robust: one job of a month among a hundred of an hour changes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from headway.core.job import Job
from headway.core.node import FloatArray

ENOUGH = 5
"""A kind answers from this many jobs on."""
BINS_PER_OCTAVE = 4
BINS = 26 * BINS_PER_OCTAVE
"""From one second to two years."""
MEMORY = 200.0
"""After this many further jobs of its kind, an old job weighs a third."""
LEAST_LEFT = 0.1
"""A job is expected to train on for at least this share of what it has trained."""

MOST_KINDS = 20_000
"""Kinds that are remembered; the most general are used most and stay."""

Kind = tuple[object, ...]
Key = TypeVar("Key")
Value = TypeVar("Value")


def newest(known: Mapping[Key, Value], changed: Mapping[Key, Value], most: int) -> dict[Key, Value]:
    """The mapping with these changes, which come last. Of more than `most` entries, those changed longest ago go."""
    mixed = dict(known)
    for key, value in changed.items():
        mixed.pop(key, None)
        mixed[key] = value
    for key in list(mixed)[: len(mixed) - most] if len(mixed) > most else ():
        del mixed[key]
    return mixed


def kinds(job: Job) -> tuple[Kind, ...]:
    """The kinds of a job, from the most alike to all; a name that the job does not have is left out."""
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
    """The bin of a duration."""
    return min(BINS - 1, max(0, int(BINS_PER_OCTAVE * math.log2(max(1.0, seconds)))))


def place_of_all(seconds: FloatArray) -> npt.NDArray[np.int64]:
    """The bins of many durations."""
    return np.minimum(BINS - 1, (BINS_PER_OCTAVE * np.log2(np.maximum(1.0, seconds))).astype(np.int64))


def edge_of(place: int) -> float:
    """Where a bin begins; 0 for the time before the first bin."""
    return float(2.0 ** (place / BINS_PER_OCTAVE)) if place >= 0 else 0.0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by logarithm of seconds; newer jobs weigh more."""

    count: int = 0
    weights: Mapping[int, float] = field(default_factory=dict)

    def add(self, seconds: float) -> Histogram:
        keep = 1.0 - 1.0 / MEMORY
        weights = {place: weight * keep for place, weight in self.weights.items() if weight > 1e-3}
        place = place_of(seconds)
        weights[place] = weights.get(place, 0.0) + 1.0
        return Histogram(self.count + 1, weights)

    def beyond(self, seconds: float) -> Histogram:
        """Only the jobs that took at least this long. Where none did, a job is expected to take as long again."""
        first = place_of(seconds) if seconds >= 1.0 else 0
        kept = {place: weight for place, weight in self.weights.items() if place >= first}
        return Histogram(self.count, kept or {min(BINS - 1, first + BINS_PER_OCTAVE): 1.0})

    def left(self, attained: float) -> tuple[float, float]:
        """Median seconds left of a job that has trained this long, and their spread as a share (from the quartiles).

        They change only where `attained` enters the next bin; inside a bin the seconds burn down.
        """
        since = edge_of(place_of(attained)) if attained >= 1.0 else 0.0
        rest = self.beyond(since) if since else self
        low, middle, high = (max(rest.quantile(share) - since, LEAST_LEFT * since) for share in (0.25, 0.5, 0.75))
        return middle, max(0.1, math.log(high / max(low, 1e-9)) / 1.35)

    def quantile(self, share: float) -> float:
        """Seconds, interpolated inside the bin."""
        wanted, seen = share * sum(self.weights.values()), 0.0
        for place, weight in sorted(self.weights.items()):
            if seen + weight >= wanted:
                return float(2.0 ** ((place + (wanted - seen) / weight) / BINS_PER_OCTAVE))
            seen += weight
        return math.nan


@dataclass(frozen=True, slots=True)
class Durations:
    """How long finished jobs trained, by kind."""

    histograms: Mapping[Kind, Histogram] = field(default_factory=dict)

    def add(self, job: Job, seconds: float) -> Durations:
        changed = {kind: self.histograms.get(kind, Histogram()).add(seconds) for kind in kinds(job)}
        return Durations(newest(self.histograms, changed, MOST_KINDS))

    def most_alike(self, job: Job) -> Histogram | None:
        """The histogram of the most alike kind that has enough jobs; None where no kind has."""
        for kind in kinds(job):
            histogram = self.histograms.get(kind)
            if histogram is not None and histogram.count >= ENOUGH:
                return histogram
        return None
