"""Least attained service, discretised as in Tiresias: no estimates needed.

A job begins in the first queue and falls into the next when it has had so many replica-seconds. Queues come in order.
Inside a queue the running stay, so that jobs of like age do not take turns; of those the last started is the first to
go. Then come the stopped, the last stopped first, and then new ones by arrival. Falling matters only while a job of the
same or an earlier queue waits: then the plan asks to be called at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.plan import Plan, Start
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.emptiest import place_emptiest
from headway.policies.place import place
from headway.policies.preempt import run_best
from headway.policies.rank import Key, Rows, service

_ROUNDING = 1e-3
"""Replica-seconds; a threshold met but for rounding is met."""
_KIND = 4e8
"""More than there are jobs, and more than the seconds of a run."""
_QUEUE = 3 * _KIND
_RUNNING = int(State.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    threshold: float = 3250.0
    """Replica-seconds after which a job leaves the first queue."""
    second: float = 0.0
    """Replica-seconds after which it leaves the second queue; 0 means that there are two queues."""
    by_arrival: bool = False
    """Inside a queue the earlier job comes first, whether it runs or not; who only filled a gap is stopped."""
    emptiest: bool = False
    """Replicas go to the emptiest nodes first; otherwise where they fit most tightly."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)

        def key(rows: Rows) -> Key:
            inside = snapshot.jobs.serial[rows] if self.by_arrival else _place_in_queue(snapshot, rows)
            return self._queue(service(snapshot, rows)) * _QUEUE + inside

        run_best(draft, key, placing=place_emptiest if self.emptiest else place)
        self._wake_at_next_fall(draft)
        return draft.plan()

    def _limits(self) -> tuple[float, ...]:
        return (self.threshold, self.second) if self.second > 0 else (self.threshold,)

    def _queue(self, had: FloatArray) -> npt.NDArray[np.int64]:
        queue = np.zeros(len(had), np.int64)
        for limit in self._limits():
            queue += had >= limit - _ROUNDING
        return queue

    def _wake_at_next_fall(self, draft: Draft) -> None:
        snapshot = draft.snapshot
        jobs = snapshot.jobs
        starting = [row for row in draft.decided_rows() if isinstance(draft.decided(row), Start)]
        waiting = jobs.waiting()
        if len(waiting) == len(starting):
            return
        had = jobs.service[waiting]
        if starting:
            had[waiting.searchsorted(starting)] = np.inf
        first = self._queue(had.min(keepdims=True))[0]
        up = np.concatenate([jobs.running(), np.array(starting, np.intp)])
        had, size = service(snapshot, up), np.maximum(jobs.size[up], 1)
        size[len(up) - len(starting) :] = jobs.width[starting]
        queue = self._queue(had)
        falls = (queue < len(self._limits())) & (queue >= first)
        if falls.any():
            limits = np.array(self._limits())[queue[falls]]
            draft.wake(snapshot.now + float(((limits - had[falls]) / size[falls]).min()))


def _place_in_queue(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Where each stands in its queue: the running by when they started, then the stopped, the last first, then new
    ones by arrival.
    """
    jobs = snapshot.jobs
    places: FloatArray = jobs.serial[rows].astype(np.float64) + 2 * _KIND
    running = jobs.state[rows] == _RUNNING
    places[running] = jobs.since[rows[running]]
    stopped = ((jobs.stops[rows] > 0) & ~running).nonzero()[0]
    places[stopped] = 2 * _KIND - 1.0 - jobs.since[rows[stopped]]
    return places
