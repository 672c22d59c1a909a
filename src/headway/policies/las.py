"""Least attained service, discretised as in Tiresias: no estimates needed.

A job begins in the first queue and falls into the next when it has had so many replica-seconds. Queues come in order;
inside a queue the running stay and the waiting come by arrival, so that jobs of like age do not take turns. Falling
matters only while a job of the same or an earlier queue waits: then the plan asks to be called at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.plan import Plan, Start
from headway.core.snapshot import Snapshot
from headway.policies.preempt import run_best
from headway.policies.rank import service

_ROUNDING = 1e-3
"""Replica-seconds; a threshold met but for rounding is met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    threshold: float = 3250.0
    """Replica-seconds after which a job leaves the first queue."""
    second: float = 0.0
    """Replica-seconds after which it leaves the second queue; 0 means that there are two queues."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        run_best(draft, lambda rows: self._queue(service(snapshot, rows)))
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
