"""First come, first served; the first waiting job blocks the others. The plainest baseline."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.steps.start import start_in_order, start_what_fits


def fifo(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    start_in_order(draft, snapshot.jobs.queue_order(), head_blocks=True)
    return draft.plan()


def first_fit(snapshot: Snapshot) -> Plan:
    """In order of arrival, what fits. A large job may wait for ever behind small ones."""
    draft = Draft(snapshot)
    start_what_fits(draft, snapshot.jobs.queue_order())
    return draft.plan()
