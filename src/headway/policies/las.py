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

    def _limits(self) -> FloatArray:
        return np.array([self.threshold] + [self.second] * (self.second > 0))

    def _queue(self, had: FloatArray) -> npt.NDArray[np.intp]:
        return np.searchsorted(self._limits() - _ROUNDING, had, side="right")

    def _wake_at_next_fall(self, draft: Draft) -> None:
        snapshot = draft.snapshot
        starting = [row for row in draft.decided_rows() if isinstance(draft.decided(row), Start)]
        waiting = snapshot.jobs.waiting()
        if len(waiting) == len(starting):
            return
        waits = np.setdiff1d(waiting, starting, assume_unique=True) if starting else waiting
        up = np.concatenate([snapshot.jobs.running(), np.array(starting, np.intp)])
        had, size = service(snapshot, up), np.maximum(snapshot.jobs.size[up], 1)
        size[len(up) - len(starting) :] = snapshot.jobs.width[starting]
        limits, queue = self._limits(), self._queue(had)
        falls = (queue < len(limits)) & (queue >= self._queue(service(snapshot, waits)).min())
        if falls.any():
            draft.wake(snapshot.now + float(((limits[queue[falls]] - had[falls]) / size[falls]).min()))
