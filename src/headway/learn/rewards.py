"""Rewards. Each adds up what the time between two cycles costs; an environment takes any of them.

The default is minus the job-seconds: over a whole episode, minus the sum of all completion times. With no discount
(gamma = 1) the best agent is the one with the lowest mean completion time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headway.core.policy import Policy
from headway.learn.episode import BaseCourse, Span

RunFromHere = Callable[[Policy], BaseCourse]
"""Runs the same episode from the handover on under a policy, without changing anything."""
Meter = Callable[[Span], float]
"""What the time between two cycles earns."""


class Reward(Protocol):
    """An object that an environment takes as `reward`."""

    def begin(self, run: RunFromHere) -> Meter:
        """Called once for each episode, at the handover."""


@dataclass(frozen=True, slots=True)
class JobSeconds:
    """Minus the seconds times the jobs in the system."""

    def begin(self, run: RunFromHere) -> Meter:  # noqa: ARG002  the protocol
        return lambda span: -span.seconds * span.jobs


@dataclass(frozen=True, slots=True)
class MissedDeadlines:
    """Minus the jobs whose deadline passes while they are in the system."""

    def begin(self, run: RunFromHere) -> Meter:  # noqa: ARG002  the protocol
        return _missed


def _missed(span: Span) -> float:
    jobs, now = span.snapshot.jobs, span.snapshot.now
    late = (jobs.deadline >= now) & (jobs.deadline < now + span.seconds) & ~jobs.over()
    return -float(np.count_nonzero(late))


@dataclass(frozen=True, slots=True)
class RelativeTo:
    """Job-seconds that the base policy spends on the same arrivals, minus the agent's: the arrivals no longer matter.

    Over a whole episode the sum is what the agent saves. The base's run costs time at each reset.
    """

    base: Policy

    def begin(self, run: RunFromHere) -> Meter:
        course = run(self.base)
        times, totals = np.array(course.times), np.array(course.totals)

        def earned(span: Span) -> float:
            begin = span.snapshot.now
            base = np.interp([begin, begin + span.seconds], times, totals)
            return float((totals[-1] if span.last else base[1]) - base[0]) - span.seconds * span.jobs

        return earned
