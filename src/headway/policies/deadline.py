"""Deadlines: the user says when, the scheduler says how many replicas. As many jobs as possible are in time, each with
the smallest size that is.

1. Which jobs can still be in time? A job whose chance is below 5 % even with the whole cluster is hopeless. Of the
   others, as many as one machine of this size could serve are chosen; the largest is left out first. They are planned
   in order of deadlines, each with the smallest size that is in time beside the earlier ones.
2. Jobs whose turn is now start or scale up, least slack first. Where there is no room, jobs with slack to spare shrink
   to what they need. Then jobs without a chance or a deadline are stopped, and jobs whose turn comes again later.
3. What is left goes to chosen jobs whose turn is later, to jobs without a deadline by arrival, and to hopeless ones,
   the shortest first. When no job waits, running jobs grow where they gain most for their share.

A missed deadline only changes the rank. A job past its deadline is hopeless, so it is never stopped for being late. It
is stopped only when a job with a chance needs its place, and it ends in time that no other job can use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.job import Can
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.add_remove import may_scale, scale_towards
from headway.policies.placing.pack import place_any_size
from headway.policies.steps.cool_down import rested
from headway.policies.steps.in_time import Outlook, ServeInTime
from headway.policies.value.deadlines import DeadlineNeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline(ServeInTime):
    """Its settings are the terms on which jobs are served in time."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        rows = [*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()]
        if not rows:
            return draft.plan()
        outlook = self.outlook(snapshot, rows)
        short = self.serve(draft, outlook)
        if short is not None and self.make_room(draft, short, outlook, _stoppable(snapshot, outlook)):
            return draft.plan()
        waits = _fill(draft, outlook)
        if short is None and not waits:
            self._grow(draft, outlook)
        return draft.plan()

    def _grow(self, draft: Draft, outlook: Outlook) -> None:
        """The running job that gains most per share becomes one step larger; others at a later event."""
        snapshot = draft.snapshot
        steps = []
        for row in [*outlook.chosen, *outlook.rest]:
            if row in snapshot.placements and draft.decided(row) is None and may_scale(snapshot, row):
                step = _step(snapshot, outlook.needs[row], self.restart)
                if step is not None and rested(draft, row, self.cool_down):
                    steps.append((*step, row))
        for _, counts, row in sorted(steps, key=lambda step: (-step[0], step[2])):
            if scale_towards(draft, row, counts, up=True):
                draft.wake(snapshot.now + 1.0)
                return


def _stoppable(snapshot: Snapshot, outlook: Outlook) -> list[int]:
    """The worst-ranked first: jobs without a chance or a deadline, then jobs whose turn comes again later."""
    jobs = snapshot.jobs
    later = [row for row in outlook.chosen if row not in outlook.sizes]
    rows = [*outlook.rest[::-1], *later[::-1]]
    return [row for row in rows if row in snapshot.placements and int(jobs.can[row]) & Can.STOP]


def _fill(draft: Draft, outlook: Outlook) -> bool:
    """Starts the other jobs, as they fit. Returns whether a job still waits."""
    snapshot, waits, failed = draft.snapshot, False, set[tuple[int, int]]()
    for row in [*outlook.chosen, *outlook.rest]:
        if row in snapshot.placements or draft.decided(row) is not None:
            continue
        alike = (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        placement = None if alike in failed else place_any_size(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
        else:
            failed.add(alike)
            waits = True
    return waits


def _step(snapshot: Snapshot, need: DeadlineNeed, restart: float) -> tuple[float, Counts] | None:
    """Seconds saved per share by the next larger size; None where that does not save more than the change costs."""
    now = snapshot.placements[need.row].counts
    larger = [size for size, counts in enumerate(need.counts)
              if sum(counts) > sum(now) and all(a >= b for a, b in zip(counts, now, strict=True))]  # fmt: skip
    if not larger or math.isnan(need.work):
        return None
    speed, size = snapshot.estimates.speed(need.row, now), larger[0]
    saved = need.work / max(speed, 1e-9) - need.work / max(float(need.speeds[size]), 1e-9)
    share = float(need.shares[size]) - float(need.shares[need.size_of(now)])
    return (saved / max(share, 1e-9), need.counts[size]) if saved > restart else None
