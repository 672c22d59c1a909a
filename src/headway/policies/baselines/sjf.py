"""Shortest job first: of the waiting jobs that fit, those with the shortest estimated training left. Never preempts.

A job without an estimate comes last. A large job may wait for ever behind small ones.
"""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.steps.order import by_key
from headway.policies.steps.start import may_fit, start_what_fits
from headway.policies.value.times import seconds_left


def sjf(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    rows = may_fit(draft, snapshot.jobs.waiting())
    if len(rows):
        start_what_fits(draft, by_key(rows, seconds_left(snapshot, rows)))
    return draft.plan()
