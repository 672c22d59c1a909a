"""Earliest deadline first; preempts. Jobs without a deadline come last, by arrival.

It asks neither whether a deadline can still be met nor how many replicas that takes: `elasticflow` does.
"""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.steps.preempt import run_best


def edf(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    run_best(draft, lambda rows: snapshot.jobs.deadline[rows])
    return draft.plan()
