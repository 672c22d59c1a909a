"""Tiresias as Pollux's authors compare with it: two queues, in each of which the earlier job comes first, running or
not.

`las` lets running jobs stay inside a queue. Here a job that only filled a gap gives way to an earlier one of its queue.
Replicas go to the emptiest nodes. A plan that stops jobs starts none: all places are given out together, by rank, once
they are free. It is meant to be asked in rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.node import BoolArray, FloatArray
from headway.core.plan import Plan, Stop
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.spread import place_emptiest
from headway.policies.ranges import Seconds
from headway.policies.steps.order import Key, by_key
from headway.policies.steps.preempt import run_best
from headway.policies.value.times import Rows, service

_ROUNDING = 1e-3
"""Replica-seconds; within this, a threshold is met."""
_MANY = float(1 << 31)
"""More than there are jobs; keys beyond 2^42 thousandths are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiresias:
    threshold: Seconds = 57_600.0
    """Replica-seconds after which a job leaves the first queue: sixteen replica-hours."""
    start_seconds: Seconds = 0.0
    """Seconds that every start took. A job holds its replicas then before it trains: they count as service too."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        return self.plan(snapshot, lambda rows: snapshot.jobs.serial[rows])

    def plan(self, snapshot: Snapshot, place_in_queue: Callable[[Rows], Key]) -> Plan:
        draft = Draft(snapshot)

        def key(rows: Rows) -> Key:
            keys: Key = self.fallen(snapshot, rows) * _MANY + place_in_queue(rows)
            return keys

        run_best(draft, key, placing=place_emptiest)
        self._wake_at_next_fall(draft)
        plan = draft.plan()
        stops = tuple(decision for decision in plan.decisions if isinstance(decision, Stop))
        return Plan(stops, plan.until) if stops else Plan(_by_rank(draft, key).plan().decisions, plan.until)

    def fallen(self, snapshot: Snapshot, rows: Rows) -> BoolArray:
        """Which of them are in the second queue."""
        fallen: BoolArray = self._had(snapshot, rows) >= self.threshold - _ROUNDING
        return fallen

    def _had(self, snapshot: Snapshot, rows: Rows) -> FloatArray:
        had, jobs = service(snapshot, rows), snapshot.jobs
        if self.start_seconds > 0:
            had += self.start_seconds * (jobs.stops[rows] + (jobs.state[rows] == int(State.RUNNING))) * jobs.width[rows]
        return had

    def _wake_at_next_fall(self, draft: Draft) -> None:
        """Asks to be called at the next fall, while a job waits."""
        snapshot, up = draft.snapshot, draft.snapshot.jobs.running()
        if not len(up) or not len(snapshot.jobs.waiting()):
            return
        before = self.threshold - self._had(snapshot, up)
        above = before > _ROUNDING
        if above.any():
            draft.wake(snapshot.now + float((before[above] / np.maximum(snapshot.jobs.size[up][above], 1)).min()))


def _by_rank(draft: Draft, key: Callable[[Rows], Key]) -> Draft:
    """The same starts, where the best-ranked chooses its place first; the draft itself where one would not fit so."""
    rows = np.array(draft.decided_rows(), np.intp)
    ranked = Draft(draft.snapshot)
    for row in by_key(rows, key(rows)).tolist() if len(rows) > 1 else ():
        placement = place_emptiest(ranked.snapshot, ranked.free, ranked.snapshot.jobs.shape_at(row))
        if placement is None:
            return draft
        ranked.start(row, placement)
    return ranked if len(rows) > 1 else draft
