"""Spread: every replica goes to the node that holds the fewest replicas. A baseline.

Jobs start in order of arrival, whole gangs or nothing; what does not fit is passed. Of nodes that hold equally many the
one with most cpu free is taken. No job is moved or stopped.
"""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.spread import replicas, spread_out


def spread(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    for row in snapshot.jobs.waiting().tolist():
        placement = spread_out(snapshot, draft.free, snapshot.jobs.shape_at(row), replicas(draft))
        if placement is not None:
            draft.start(row, placement)
    return draft.plan()
