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
from headway.policies.rank import Rows, service

_ROUNDING = 1e-3
"""Replica-seconds; a threshold met but for rounding is met."""
_MANY = 1 << 21
"""More than there are jobs."""


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

        def key(rows: Rows) -> npt.NDArray[np.int64]:
            inside = rows.astype(np.int64) if self.by_arrival else _place_in_queue(snapshot, rows)
            return self._queue(service(snapshot, rows)) * _MANY + inside

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
        starting = [row for row in draft.decided_rows() if isinstance(draft.decided(row), Start)]
        waiting = snapshot.jobs.waiting()
        if len(waiting) == len(starting):
            return
        waits = np.setdiff1d(waiting, starting, assume_unique=True) if starting else waiting
        first = self._queue(snapshot.jobs.service[waits].min(keepdims=True))[0]
        up = np.concatenate([snapshot.jobs.running(), np.array(starting, np.intp)])
        had, size = service(snapshot, up), np.maximum(snapshot.jobs.size[up], 1)
        size[len(up) - len(starting) :] = snapshot.jobs.width[starting]
        queue = self._queue(had)
        falls = (queue < len(self._limits())) & (queue >= first)
        if falls.any():
            limits = np.array(self._limits())[queue[falls]]
            draft.wake(snapshot.now + float(((limits - had[falls]) / size[falls]).min()))


def _place_in_queue(snapshot: Snapshot, rows: Rows) -> npt.NDArray[np.int64]:
    """Where each would stand if all were in one queue: running, stopped, new."""
    jobs = snapshot.jobs
    running = np.flatnonzero(jobs.state[rows] == State.RUNNING)
    stopped = np.flatnonzero((jobs.stops[rows] > 0) & (jobs.state[rows] == State.WAITING))
    places = np.arange(len(rows)) + len(stopped)
    places[running] = np.argsort(np.argsort(jobs.since[rows[running]], kind="stable"), kind="stable")
    last_first = np.argsort(np.argsort(-jobs.since[rows[stopped]], kind="stable"), kind="stable")
    places[stopped] = len(running) + last_first
    return places
