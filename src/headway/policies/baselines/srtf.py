"""Shortest remaining time first, and shortest remaining service (time x replicas) first; both preempt.

With an oracle's estimates and no costs of stopping, `srtf` is the clairvoyant bound that others are compared with. The
order of running jobs against waiting ones changes only when something happens, so no clock is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.ranges import Factor
from headway.policies.steps.preempt import run_best
from headway.policies.value.times import seconds_left


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    margin: Factor = 0.25
    """By how much longer a running job must be to be stopped, where jobs differ in more than their width. There speed
    depends on the place, and a job that looks longer only because of its place would take turns with others.
    """

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        run_best(draft, lambda rows: seconds_left(snapshot, rows), margin=self.margin)
        return draft.plan()


@dataclass(frozen=True, slots=True, kw_only=True)
class Srsf:
    margin: Factor = 0.25
    """As for `srtf`."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        width = snapshot.jobs.width
        run_best(draft, lambda rows: seconds_left(snapshot, rows) * width[rows], margin=self.margin)
        return draft.plan()
