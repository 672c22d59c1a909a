"""How long will a job train that has not run yet? From what like jobs took.

`Durations` keeps a running histogram for each kind of job, from the most alike (user, queue, model, size) to all jobs,
and answers with quantiles of the most alike kind that has enough. It is robust: one job of a month among a hundred of
an hour moves nothing. `trees` (with the extra `predict`) learns from a table of finished jobs instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.core.job import Job
from headway.core.node import FloatArray

ENOUGH = 5
"""Jobs of a kind before it is asked."""
BINS_PER_OCTAVE = 4
BINS = 26 * BINS_PER_OCTAVE
"""From one second to two years."""
MEMORY = 200.0
"""Jobs of a kind after which an old one weighs a third."""

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


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by logarithm of seconds, newer jobs weighing more."""

    count: int = 0
    weights: Mapping[int, float] = field(default_factory=dict)

    def add(self, seconds: float) -> Histogram:
        keep = 1.0 - 1.0 / MEMORY
        weights = {place: weight * keep for place, weight in self.weights.items() if weight > 1e-3}
        place = min(BINS - 1, max(0, int(BINS_PER_OCTAVE * math.log2(max(1.0, seconds)))))
        weights[place] = weights.get(place, 0.0) + 1.0
        return Histogram(self.count + 1, weights)

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
        for kind in kinds(job):
            histogram = self.histograms.get(kind)
            if histogram is not None and histogram.count >= ENOUGH:
                low, middle, high = (histogram.quantile(share) for share in (0.25, 0.5, 0.75))
                return middle, max(0.1, math.log(high / low) / 1.35)
        return None


@dataclass(frozen=True, slots=True)
class Trees:
    """Boosted trees on the logarithm of seconds."""

    model: Any
    codes: Mapping[tuple[str, str], int]

    def predict(self, jobs: Sequence[Job]) -> FloatArray:
        seconds: FloatArray = np.exp(self.model.predict(_features(jobs, dict(self.codes))))
        return seconds


def trees(jobs: Sequence[Job], seconds: Sequence[float], seed: int = 0) -> Trees:
    """Learns from finished jobs. Needs the extra `predict`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    codes: dict[tuple[str, str], int] = {}
    features = _features(jobs, codes, learn=True)
    model = HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=150, max_leaf_nodes=31, min_samples_leaf=20, learning_rate=0.08,
        early_stopping=False, random_state=seed,
    )  # fmt: skip
    model.fit(features, np.log(np.maximum(1.0, np.array(seconds, float))))
    return Trees(model, codes)


def _features(jobs: Sequence[Job], codes: dict[tuple[str, str], int], *, learn: bool = False) -> FloatArray:
    """Names as numbers in order of appearance, size, and the hour and day of submission, which users keep to."""

    def code(field_: str, name: str) -> float:
        if learn:
            codes.setdefault((field_, name), len(codes))
        return float(codes.get((field_, name), -1))

    table: FloatArray = np.array([
        (
            code("user", job.user), code("queue", job.queue), code("model", job.model), float(job.replicas),
            job.submit % 86_400.0, job.submit // 86_400.0 % 7.0, -1.0 if job.steps is None else float(job.steps),
        )
        for job in jobs
    ], float).reshape(len(jobs), 7)  # fmt: skip
    return table
