"""Earliest deadline first; preempts. Jobs without a deadline come last, by arrival.

It asks neither whether a deadline can still be met nor how many replicas that takes: `elasticflow` does.
"""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.preempt import run_best
from headway.policies.rank import touchable


def edf(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    rows = touchable(snapshot)
    run_best(draft, rows, snapshot.jobs.deadline[rows])
    return draft.plan()
