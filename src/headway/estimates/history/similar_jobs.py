"""What like jobs tell of jobs that have not reported: how long they take, before they train and while they do.

`SimilarJobs` is what a history tells of one group of jobs, `SimilarJobsCache` the answers for all groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headway.core.job import Job
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.estimates.history.history import History
from headway.estimates.history.lengths import LEAST_LEFT, Lengths, edge_of, place_of, place_of_all
from headway.estimates.job.pace import Guess
from headway.estimates.speed.accelerators import type_wanted
from headway.estimates.speed.requested import requested_setting

FEW = 12
"""Up to this many jobs are answered one by one."""


@dataclass(frozen=True, slots=True)
class SimilarJobs:
    """What is known of a group of jobs before they report."""

    lengths: tuple[float, float] | None
    """Steps to the target and their spread, where jobs have reached the same target."""
    step: Guess | None
    """Seconds per step at the requested size."""
    took: Lengths | None
    """Training times of like jobs."""
    memo: dict[float, tuple[float, float]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, job: Job, history: History, nodes: Nodes) -> SimilarJobs:
        return cls(
            history.reached(job).known(),
            history.step(job, requested_setting(job, nodes)),
            history.durations.told(job),
        )

    def by_steps(self, steps: FloatArray) -> BoolArray:
        """For which jobs steps tell the time left. `steps`: as the user said; NaN where the user did not.

        Where paces of like jobs differ more than their lengths, lengths tell it.
        """
        spread = self._by_steps_spread()
        took = self._took(0.0)
        if spread is None or (took is not None and took[1] < spread):
            return np.zeros(len(steps), np.bool_)
        return ~np.isnan(steps) if self.lengths is None else np.ones(len(steps), np.bool_)

    def _by_steps_spread(self) -> float | None:
        if self.step is None:
            return None
        return self.step.spread if self.lengths is None else math.hypot(self.step.spread, self.lengths[1])

    def new(self, steps: FloatArray) -> tuple[FloatArray, float | FloatArray] | None:
        """Seconds left and spread of jobs that have not trained yet; None where nothing is known."""
        took = self._took(0.0) or (math.nan, math.nan)
        spread, known = self._by_steps_spread(), self.by_steps(steps)
        if self.step is None or spread is None:
            return None if self.took is None else (np.full(len(steps), took[0]), took[1])
        wanted = steps if self.lengths is None else np.fmin(steps, self.lengths[0])
        return np.where(known, wanted * self.step.seconds, took[0]), np.where(known, spread, took[1])

    def going(self, attained: FloatArray, since: FloatArray, trained: FloatArray) -> FloatArray | None:
        """(3, jobs): seconds left, as of when, and spread. A job had trained `attained` at `since`, now `trained`."""
        if self.took is None:
            return None
        found: FloatArray = np.empty((3, len(attained)))
        if len(attained) <= FEW:
            for number, row in enumerate(zip(attained.tolist(), since.tolist(), trained.tolist(), strict=True)):
                found[:, number] = self._going(*row)
            return found
        places = np.where(trained >= 1.0, place_of_all(trained), -1)
        for place in np.unique(places).tolist():
            chosen, begins = places == place, edge_of(place)
            middle, spread = self._took(begins) or (math.nan, math.nan)
            left = middle - np.maximum(0.0, attained[chosen] - begins)
            found[0, chosen] = np.maximum(left, LEAST_LEFT * begins)
            found[1, chosen] = since[chosen] + np.maximum(0.0, begins - attained[chosen])
            found[2, chosen] = spread
        return found

    def _going(self, attained: float, since: float, trained: float) -> tuple[float, float, float]:
        begins = edge_of(place_of(trained) if trained >= 1.0 else -1)
        middle, spread = self._took(begins) or (math.nan, math.nan)
        left = max(middle - max(0.0, attained - begins), LEAST_LEFT * begins)
        return left, since + max(0.0, begins - attained), spread

    def _took(self, begins: float) -> tuple[float, float] | None:
        if self.took is None:
            return None
        known = self.memo.get(begins)
        if known is None:
            known = self.memo[begins] = self.took.left(begins)
        return known


Sources = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SimilarJobsCache:
    """Answers by group, each with what it rests on: it is used again only while that is the very same."""

    answers: dict[int, tuple[History, Sources, SimilarJobs]] = field(default_factory=dict)

    def copy(self) -> SimilarJobsCache:
        return SimilarJobsCache(self.answers.copy())

    def kept(self, groups: Sequence[int]) -> SimilarJobsCache:
        """The answers of these groups only, numbered anew in this order."""
        known = self.answers
        return SimilarJobsCache({number: known[group] for number, group in enumerate(groups) if group in known})

    def of(self, group: int, job: Job, history: History, nodes: Nodes) -> SimilarJobs:
        found = self.answers.get(group)
        if found is not None and found[0] is history and found[1][-1] is nodes:
            return found[2]
        kinds = (history.kind(job), history.kind(job, type_wanted(job, nodes)))
        sources: Sources = (history.durations, *kinds, history.reached(job), nodes)
        if found is None or any(one is not other for one, other in zip(found[1][1:], sources[1:], strict=True)):
            like = SimilarJobs.of(job, history, nodes)
        elif found[1][0] is not history.durations:
            like = replace(found[2], took=history.durations.told(job), memo={})
        else:
            like = found[2]
        self.answers[group] = (history, sources, like)
        return like
