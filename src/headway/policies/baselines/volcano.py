"""An order like Volcano's with its plugins priority, sla and gang: the nearest relative of `combined-priority`.

Higher job priority comes first, then earlier submission (the sla order with one waiting time for all). Whole gangs or
nothing; others pass. Room is kept for a job that has waited the sla's time. There is no user priority, no parallelism
and no placement by role.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.affinity import place_any_by_role
from headway.policies.ranges import Seconds
from headway.policies.steps.reserve import Guard, start_guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class Volcano:
    sla_waiting_time: Seconds = 86_400.0
    """Seconds after which room is kept for a waiting job."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        rows = snapshot.jobs.waiting()
        if len(rows):
            ordered = rows[np.argsort(-snapshot.jobs.priority[rows], kind="stable")]
            start_guarded(draft, ordered, Guard(self.sla_waiting_time), place_any_by_role)
        return draft.plan()
