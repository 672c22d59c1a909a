"""The time ahead in pieces, and what share of the cluster is not yet promised in each.

One number stands for all resources, the largest share of any kind, which never promises more than there is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headway.core.node import FloatArray
from headway.policies.value.deadlines import Need


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """How a job would run: the number of its size in each piece (-1: it waits), and when it would be done."""

    sizes: FloatArray
    end: float

    @property
    def now(self) -> int:
        return int(self.sizes[0])


class Calendar:
    __slots__ = ("left", "starts")

    def __init__(self, now: float) -> None:
        self.starts = [now]
        self.left = [1.0]

    def take(self, share: float, until: float) -> None:
        """Somebody holds this share until then, whatever is planned."""
        self._cut(until)
        for piece, start in enumerate(self.starts):
            if start < until:
                self.left[piece] -= share

    def promise(self, need: Need, deadline: float) -> Course | None:
        """The smallest size that is done by then, beside what is promised already; promised, or None."""
        first = need.least(deadline - self.starts[0])
        if first is None:
            return None
        for size in range(first, len(need.counts)):
            course = self.course(need, size)
            if course.end <= deadline:
                self._keep(need, course)
                return course
        return None

    def course(self, need: Need, largest: int) -> Course:
        """As soon as it can be, never above this size."""
        starts, left = np.array(self.starts), np.array(self.left)
        ends = np.append(starts[1:], np.inf)
        sizes = np.minimum(np.searchsorted(need.shares, left + 1e-9, side="right") - 1, largest)
        speeds = np.where(sizes >= 0, need.speeds[np.maximum(sizes, 0)], 0.0)
        seconds = np.where(np.isinf(ends), 0.0, ends - starts)
        work = need.work + need.delay * float(need.speeds[largest])
        done = np.concatenate([[0.0], np.cumsum(speeds * seconds)[:-1]])
        with np.errstate(divide="ignore", invalid="ignore"):
            finish = np.where(speeds > 0, starts + np.maximum(work - done, 0.0) / speeds, np.inf)
        within = finish <= ends
        return Course(sizes, float(finish[within].min(initial=np.inf)))

    def _keep(self, need: Need, course: Course) -> None:
        self._cut(course.end)
        for piece, start in enumerate(self.starts):
            if start >= course.end:
                break
            if course.sizes[piece] >= 0:
                self.left[piece] -= float(need.shares[int(course.sizes[piece])])

    def _cut(self, at: float) -> None:
        """A new piece begins here."""
        if not self.starts[0] < at < math.inf or at in self.starts:
            return
        place = int(np.searchsorted(self.starts, at))
        self.starts.insert(place, at)
        self.left.insert(place, self.left[place - 1])


def most_in_time(jobs: Iterable[Need], now: float, room: float) -> set[int]:
    """Rows of a largest set that one divisible machine could serve in time, after Moore and Hodgson.

    In order of deadlines; whenever the work up to a deadline is more than fits before it, the largest is left out.
    """
    total, chosen = 0.0, list[tuple[float, int]]()
    for need in sorted(jobs, key=lambda need: (need.deadline, need.row)):
        area = need.area(need.deadline - now)
        heapq.heappush(chosen, (-area, need.row))
        total += area
        while total > room * (need.deadline - now) and chosen:
            total += heapq.heappop(chosen)[0]
    return {row for _, row in chosen}
