"""How long will a job train that has not run yet? By how long like jobs took.

`Durations` keeps a running histogram for each kind of job, from the most alike (user, queue, model, size) to all jobs.
The answer begins with all jobs and leans to each kind that is more alike, as far as such kinds have explained lengths
so far (`Explained`): where users differ and their next job is like their last, it is nearly the user's histogram; where
jobs of one user differ as those of all do, it is that of all. This is robust: one job of a month among a hundred of an
hour changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from headway.core.job import Job
from headway.estimates.history.lengths import Lengths, place_of

ENOUGH = 5
"""A kind answers from this many jobs on; with this many it has half the weight of a kind with very many."""
MEMORY = 200.0
"""After this many further jobs of its kind, an old job weighs a third."""
AT_FIRST = 0.5
"""What kinds are taken to explain before jobs have shown it."""
DOUBTED = 4.0
"""How firmly: as much as kinds that were off by a factor of e for four jobs."""
FARTHEST = 3.0
"""Beyond this distance, as a logarithm, a single job teaches no more of what kinds explain."""

MOST_KINDS = 20_000
"""Kinds that are remembered; the most general are used most and stay."""

JobGroup = tuple[object, ...]
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


def kinds(job: Job) -> tuple[JobGroup, ...]:
    """The kinds of a job, from the most alike to all; a name that the job does not have is left out."""
    size = job.replicas.bit_length()
    found: list[JobGroup] = []
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
    """Counts by logarithm of seconds; newer jobs weigh more."""

    count: int = 0
    weights: Mapping[int, float] = field(default_factory=dict)
    memo: list[Lengths] = field(default_factory=list, compare=False, repr=False)

    def add(self, seconds: float) -> Histogram:
        keep = 1.0 - 1.0 / MEMORY
        weights = {place: weight * keep for place, weight in self.weights.items() if weight > 1e-3}
        place = place_of(seconds)
        weights[place] = weights.get(place, 0.0) + 1.0
        return Histogram(self.count + 1, weights)

    @property
    def lengths(self) -> Lengths:
        if not self.memo:
            self.memo.append(Lengths.of(self.weights))
        return self.memo[0]


@dataclass(frozen=True, slots=True)
class Explained:
    """How much of a kind's distance from what is told without it was found again in the next job of the kind.

    A regression through zero on jobs that the kind had not seen: sums of distance times what the job was off, and of
    squared distances. A kind whose jobs differ as all do explains nothing, however few it has and whatever they say.
    """

    both: float = 0.0
    square: float = 0.0

    def add(self, off: float, apart: float) -> Explained:
        keep = 1.0 - 1.0 / MEMORY
        off = min(FARTHEST, max(-FARTHEST, off))
        return Explained(keep * self.both + off * apart, keep * self.square + apart * apart)

    @property
    def share(self) -> float:
        return min(1.0, max(0.0, (self.both + DOUBTED * AT_FIRST) / (self.square + DOUBTED)))


NOT_SHOWN = Explained()


@dataclass(frozen=True, slots=True)
class Durations:
    """How long finished jobs trained, by kind."""

    histograms: Mapping[JobGroup, Histogram] = field(default_factory=dict)
    explained: Mapping[str, Explained] = field(default_factory=dict)
    """By the names that a kind goes by, as `level` tells them."""

    def add(self, job: Job, seconds: float) -> Durations:
        changed = {kind: self.histograms.get(kind, Histogram()).add(seconds) for kind in kinds(job)}
        return Durations(newest(self.histograms, changed, MOST_KINDS), self._after(job, seconds))

    def told(self, job: Job) -> Lengths | None:
        """Lengths of like jobs; None where there are too few of any kind."""
        answer = None
        for kind, group in self._groups(job):
            lengths = group.lengths
            answer = lengths if answer is None else answer.leaning(lengths, self._weight(kind, group))
        return answer

    def _after(self, job: Job, seconds: float) -> Mapping[str, Explained]:
        """What kinds explain, with this job: how each would have changed the answer, and whether for the better."""
        explained, told, actual = dict(self.explained), math.nan, math.log(max(1.0, seconds))
        for kind, group in self._groups(job):
            apart = group.lengths.mean_log() - told
            if math.isnan(told):
                told = group.lengths.mean_log()
            elif apart:
                name = level(kind)
                explained[name] = explained.get(name, NOT_SHOWN).add(actual - told, apart * _sure(group))
                told += self._weight(kind, group) * apart
        return explained

    def _groups(self, job: Job) -> Iterator[tuple[JobGroup, Histogram]]:
        """From all jobs to the most alike ones: the kinds that have enough."""
        for kind in reversed(kinds(job)):
            group = self.histograms.get(kind)
            if group is not None and group.count >= ENOUGH:
                yield kind, group

    def _weight(self, kind: JobGroup, group: Histogram) -> float:
        return self.explained.get(level(kind), NOT_SHOWN).share * _sure(group)


def level(kind: JobGroup) -> str:
    """What a kind goes by: `user, model, size`, for example."""
    names = {1: (), 2: ("size",), 3: (kind[0], "size"), 4: (kind[0], "model", "size")}[len(kind)]
    return ", ".join(str(name) for name in names)


def _sure(group: Histogram) -> float:
    return group.count / (group.count + ENOUGH)
