"""The events that the simulator expects. Each job has at most two: its end, and the end of a change in flight.

When an event gets a new time, the old entry stays in the heap. Event numbers tell which entry is valid.
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
        """By job: the number of the event at which it ends."""
        self.landings: dict[JobId, int] = {}
        """By job: the number of the event at which its change ends."""

    def expect(self, at: float, job: JobId, kind: dict[JobId, int]) -> None:
        """Adds an event of a kind, `ends` or `landings`, and replaces the job's earlier one of that kind."""
        self._number += 1
        kind[job] = self._number
        heapq.heappush(self._heap, (at, self._number, job))

    def forget(self, job: JobId) -> None:
        self.ends.pop(job, None)
        self.landings.pop(job, None)

    def next(self) -> float:
        """The time of the next event; infinite when there is none."""
        heap = self._heap
        while heap:
            at, number, job = heap[0]
            if self.ends.get(job) == number or self.landings.get(job) == number:
                return at
            heapq.heappop(heap)
        return math.inf

    def take(self, now: float) -> tuple[JobId, bool] | None:
        """Takes the next event that is due: its job, and whether a change lands. None when nothing is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, number, job = heapq.heappop(heap)
            if self.ends.get(job) == number:
                return job, False
            if self.landings.get(job) == number:
                del self.landings[job]
                return job, True
        return None
