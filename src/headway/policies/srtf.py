"""Shortest remaining time first, and shortest remaining service (time x replicas) first; both preempt.

With an oracle's estimates and no costs of stopping, `srtf` is the clairvoyant bound that others are compared with. The
order of running jobs against waiting ones changes only when something happens, so no clock is needed.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.preempt import run_best
from headway.policies.rank import by_key, seconds_left, touchable


def srtf(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    rows = touchable(snapshot)
    run_best(draft, by_key(rows, seconds_left(snapshot, rows)))
    return draft.plan()


def srsf(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    rows = touchable(snapshot)
    jobs = snapshot.jobs
    width = np.where(jobs.size[rows] > 0, jobs.size[rows], jobs.width[rows])
    run_best(draft, by_key(rows, seconds_left(snapshot, rows) * width))
    return draft.plan()
