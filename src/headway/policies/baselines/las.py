"""Least attained service, discretised as in Tiresias: no estimates needed.

A job begins in the first queue, and falls into the next when it has had `threshold` replica-seconds. Queues come in
order. Inside a queue running jobs stay, so that jobs of similar age do not take turns; the last started is the first to
go. Then come stopped jobs, the last stopped first, and then new ones by arrival. Falling matters only while a job of
the same or an earlier queue waits: then the plan asks to be called at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.jobs.row import JobRow
from headway.core.node import FloatArray
from headway.core.plan import Plan, Start
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.ranges import Seconds
from headway.policies.steps.preempt import run_best
from headway.policies.value.times import Rows, service

_ROUNDING = 1e-3
"""Replica-seconds; within this, a threshold is met."""
_KIND = 4e8
"""More than there are jobs, and more than the seconds of a run."""
_QUEUE = 3 * _KIND
_RUNNING = int(State.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    threshold: Seconds = 3250.0
    """Replica-seconds after which a job leaves the first queue."""
    second: Seconds = 0.0
    """Replica-seconds after which it leaves the second queue; 0 means that there are two queues."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft, jobs = Draft(snapshot), snapshot.jobs
        waiting, running = jobs.waiting(), jobs.running()
        if not len(waiting):
            return draft.plan()
        keys, had = self._keys_of_waiting(snapshot), service(snapshot, running)
        limits = np.array([*self._limits(), np.inf])
        queue = limits.searchsorted(had + _ROUNDING, "right")
        keys_of_running = queue * _QUEUE + jobs.since[running]
        run_best(draft, lambda _: keys, key_of_running=lambda _: keys_of_running)
        falls = (limits[queue] - had) / jobs.size[running]
        self._wake_at_next_fall(draft, keys, falls, queue)
        return draft.plan()

    def _limits(self) -> list[float]:
        return [self.threshold, self.second] if self.second > 0 else [self.threshold]

    def _keys_of_waiting(self, snapshot: Snapshot) -> FloatArray:
        """By queue; in a queue first stopped jobs, the last first, then new ones by arrival. Changes only with the job
        itself.
        """
        limits = [limit - _ROUNDING for limit in self._limits()]

        def place_of(job: JobRow, serial: int) -> float:
            front: float = _QUEUE * sum(job.service >= limit for limit in limits)
            inside: float = -1.0 - job.since if job.stops else serial
            return front + 2 * _KIND + inside

        keys: FloatArray = snapshot.jobs.computed(self, place_of)[snapshot.jobs.waiting()]
        return keys

    def _wake_at_next_fall(self, draft: Draft, keys: FloatArray, falls: FloatArray, queue: Rows) -> None:
        """Wakes when the next running job falls. `falls`: seconds until each does; infinite in the last queue."""
        jobs, now, limits = draft.snapshot.jobs, draft.snapshot.now, [*self._limits(), np.inf]
        starting = [row for row in draft.decided_rows() if isinstance(draft.decided(row), Start)]
        if len(keys) == len(starting):
            return
        if starting:
            keys[jobs.waiting().searchsorted(starting)] = np.inf
        first = int(np.minimum.reduce(keys) // _QUEUE)
        soonest = float(np.minimum.reduce(falls[queue >= first] if first else falls, initial=np.inf))
        for row in starting:
            had = jobs.value(row, "service")
            own = next(limit for limit in limits if had < limit - _ROUNDING)
            if limits.index(own) >= first:
                soonest = min(soonest, (own - had) / jobs.value(row, "width"))
        draft.wake(now + soonest)
