"""Expected events: of each job at most its end, and the end of a change that was begun.

An event that is expected anew leaves the old one in the heap; event numbers tell which one is valid.
"""

from __future__ import annotations

import heapq
import math

from headway.core.job import JobId


class Agenda:
    __slots__ = ("_heap", "_number", "ends", "landings")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, JobId]] = []
        self._number = 0
        self.ends: dict[JobId, int] = {}
        """By job: the number of the event that is its end."""
        self.landings: dict[JobId, int] = {}

    def expect(self, at: float, job: JobId, kind: dict[JobId, int]) -> None:
        self._number += 1
        kind[job] = self._number
        heapq.heappush(self._heap, (at, self._number, job))

    def forget(self, job: JobId) -> None:
        self.ends.pop(job, None)
        self.landings.pop(job, None)

    def next(self) -> float:
        """When the next thing happens; infinite where nothing will."""
        heap = self._heap
        while heap:
            at, number, job = heap[0]
            if self.ends.get(job) == number or self.landings.get(job) == number:
                return at
            heapq.heappop(heap)
        return math.inf

    def take(self, now: float) -> tuple[JobId, bool] | None:
        """The next job to which something happens by now, and whether it is a landing."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, number, job = heapq.heappop(heap)
            if self.ends.get(job) == number:
                return job, False
            if self.landings.get(job) == number:
                del self.landings[job]
                return job, True
        return None
