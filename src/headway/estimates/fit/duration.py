"""How long will a job train that has not run yet? From what like jobs took.

`Durations` keeps a running histogram for each kind of job, from the most alike (user, queue, model, size) to all jobs,
and answers with quantiles of the most alike kind that has enough. It is robust: one job of a month among a hundred of
an hour moves nothing. `trees` (with the extra `predict`) learns how far to follow it from a table of finished jobs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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

    def predict(self, job: Job) -> tuple[float, float] | None:
        """Median seconds and spread as a share (from the quartiles); None before enough jobs have finished."""
        found = self.most_alike(job)
        return None if found is None else found.left(0.0)

    def most_alike(self, job: Job) -> Histogram | None:
        """Of the most alike kind that has enough jobs."""
        for kind in kinds(job):
            histogram = self.histograms.get(kind)
            if histogram is not None and histogram.count >= ENOUGH:
                return histogram
        return None


@dataclass(frozen=True, slots=True)
class Trees:
    """Boosted trees on how far jobs are off what like jobs took lately, as a logarithm."""

    model: Any
    codes: Mapping[tuple[str, str], int]

    def predict(self, jobs: Sequence[Job], durations: Durations) -> FloatArray:
        """`durations`: what like jobs took lately, which says more than what was so when the trees were grown."""
        return self.corrected(jobs, [_lately(durations, job) for job in jobs])

    def corrected(self, jobs: Sequence[Job], lately: Sequence[tuple[float, ...]]) -> FloatArray:
        base = np.array([known[0] for known in lately])
        seconds: FloatArray = np.exp(base + self.model.predict(_features(jobs, lately, self.codes)))
        return seconds


def trees(jobs: Sequence[Job], seconds: Sequence[float], seed: int = 0) -> Trees:
    """Learns from finished jobs, in order of submission. Needs the extra `predict`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    codes: dict[tuple[str, str], int] = {}
    for job in jobs:
        for pair in _names(job):
            codes.setdefault(pair, len(codes))
    lately = replayed(jobs, seconds)
    off = np.log(np.maximum(1.0, np.array(seconds, float))) - np.array([known[0] for known in lately])
    model = HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=150, max_leaf_nodes=31, min_samples_leaf=20, learning_rate=0.08,
        early_stopping=False, random_state=seed,
    )  # fmt: skip
    model.fit(_features(jobs, lately, codes), off)
    return Trees(model, codes)


def replayed(jobs: Sequence[Job], seconds: Sequence[float]) -> list[tuple[float, ...]]:
    """What like jobs had taken by the time that each job was submitted, had every job started at once."""
    durations, lately = Durations(), []
    ended: list[tuple[float, int]] = []
    for number in sorted(range(len(jobs)), key=lambda number: jobs[number].submit):
        job = jobs[number]
        while ended and ended[0][0] <= job.submit:
            durations = durations.add(jobs[ended[0][1]], seconds[heapq.heappop(ended)[1]])
        lately.append((number, _lately(durations, job)))
        heapq.heappush(ended, (job.submit + seconds[number], number))
    return [one for _, one in sorted(lately)]


def _lately(durations: Durations, job: Job) -> tuple[float, ...]:
    """Quartiles of the most alike kind, as logarithms; zeros where nothing is known."""
    found = durations.predict(job)
    if found is None:
        return (0.0, 0.0)
    return (math.log(max(1.0, found[0])), found[1])


def _names(job: Job) -> tuple[tuple[str, str], ...]:
    return (("user", job.user), ("queue", job.queue), ("model", job.model))


def _features(
    jobs: Sequence[Job], lately: Sequence[tuple[float, ...]], codes: Mapping[tuple[str, str], int]
) -> FloatArray:
    """Names as numbers in order of appearance, size, the hour and day of submission, and what like jobs took."""
    rows = [
        (
            *(float(codes.get(pair, -1)) for pair in _names(job)), float(job.replicas), job.submit % 86_400.0,
            job.submit // 86_400.0 % 7.0, -1.0 if job.steps is None else float(job.steps), *known,
        )
        for job, known in zip(jobs, lately, strict=True)
    ]  # fmt: skip
    table: FloatArray = np.array(rows, float).reshape(len(jobs), 9)
    return table
