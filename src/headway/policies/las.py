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
from headway.policies.rank import Rows, service, touchable

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
        rows = touchable(snapshot)
        had = service(snapshot, rows)
        limits = np.array([self.threshold] + [self.second] * (self.second > 0))
        queue = np.searchsorted(limits - _ROUNDING, had, side="right")
        run_best(draft, rows, queue)
        _wake_at_next_fall(draft, rows, queue, had, limits)
        return draft.plan()


def _wake_at_next_fall(
    draft: Draft, rows: Rows, queue: npt.NDArray[np.intp], had: FloatArray, limits: FloatArray
) -> None:
    jobs, now = draft.snapshot.jobs, draft.snapshot.now
    size = jobs.size[rows].astype(np.float64)
    starting = [jobs.row_of[decision.job] for decision in draft.plan().decisions if isinstance(decision, Start)]
    if starting:
        size = np.where(np.isin(rows, starting), jobs.width[rows], size)
    stays = size == 0
    if not stays.any():
        return
    falls = ~stays & (queue >= queue[stays].min()) & (queue < len(limits))
    if falls.any():
        draft.wake(now + float(((limits[queue[falls]] - had[falls]) / size[falls]).min()))
