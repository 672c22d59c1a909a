"""Headway: all ideas composed, and the default. Near to shortest-remaining-time without being told any times.

1. *Order.* The administrator's priorities first. Then least expected seconds times share of the cluster: what a job's
   own reports, its user or, before that, like jobs say (`expect`). A new job is thereby soon given a trial, in which it
   shows its pace; trials at one time have a bounded share of the cluster, and nobody is stopped during his.
2. *The tail.* A share of the cluster belongs to those who would be latest, by age and time left (`latest`); another
   to deadlines at risk that can still be met.
3. *Room.* Where jobs can be scaled, newcomers start at the size that is worth most and others shrink for them. Running
   jobs that rank behind are stopped where the gain is well above what stopping and starting costs, and not soon after
   they were started. Where jobs may not be stopped, who waited long reserves, and others pass only beside that.
4. *What is left.* Nobody waits: running jobs grow where they gain most, have idle cpu up to their limits, and at most
   one moves to a better place.

Without estimates, and for jobs that are not believed, a job is taken to need as long again as it has had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headway.core.draft import Draft
from headway.core.node import BoolArray, FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place_asked
from headway.policies.steps.cool_down import all_cool_at
from headway.policies.steps.order import by_key, priority_class
from headway.policies.steps.preempt import run_best
from headway.policies.steps.relocate import Relocation, relocate
from headway.policies.steps.reserve import start_guarded
from headway.policies.steps.scale import use_sizes
from headway.policies.steps.spare_cpu import lend_cpu, take_back_cpu
from headway.policies.steps.start import fits_empty
from headway.policies.value.expected import Expected, expected
from headway.policies.value.sizes import first_within, shares
from headway.policies.value.tail import Tail, latest
from headway.policies.value.times import Rows, waited
from headway.policies.value.worth import Terms

_CLASS = 1e6
"""Between classes of priority; ranks within a class are below it."""
LOOK_AGAIN = 60.0
"""Seconds after which it is looked again who is in whose way, while jobs share the cpu of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headway:
    trial: float = 120.0
    """Seconds that a new job has to show its pace, without being stopped. It is looked at half-way, too."""
    trial_share: float = 0.5
    """Of the cluster, for trials at one time; other new jobs wait as if they took what like jobs took."""
    width_weight: float = 1.0
    """1 ranks by seconds times share of the cluster, 0 by seconds alone."""
    margin: float = 0.25
    """A running job counts as shorter by this share: hysteresis, because estimates are never exact."""
    restart: float = 30.0
    """Seconds that stopping a job and starting it again is taken to cost; a change must gain more."""
    cool_down: float = 60.0
    """Seconds for which a job is left alone after it was started, scaled or moved."""
    patience: float = 10_800.0
    """Seconds that a job must have waited to reserve where nobody may be stopped, to have its least size whatever it
    costs those who can shrink, or to be among the latest although it is wide.
    """
    latest_share: float = 0.15
    """Of the cluster, for the latest. 0 lets long jobs wait for as long as there are shorter ones."""
    latest_near: float = 0.7
    """Whose foreseen completion is at least this share of that of the few latest of all is among the latest."""
    latest_far: float = 1.75
    """And at least so many times that of the middle one of all."""
    latest_stay: float = 0.1
    """Of the cluster: the latest of all who together have no more than this are not stopped. Where sizes are chosen
    nobody is spared, because there jobs shrink before they are stopped.
    """
    latest_claim: float = 1.0
    """The others must have waited so many times as long as they would hold up everybody."""
    deadline_share: float = 0.25
    """Of the cluster, for jobs whose deadline can be met if they run from now on, and soon no longer."""
    deadline_guard: float = 0.5
    """A deadline is at risk where less slack is left than this share of the time left."""
    user_priority: tuple[tuple[str, float], ...] = ()
    """User and priority, by the administrator. On the command line a YAML file of names and numbers, or ann=8,bob=2."""
    other_users: float = 0.0
    """Priority of users who are not named."""
    scaling: bool = True
    """Sizes of jobs that allow it, and cpu up to their limits, are the scheduler's to choose."""
    moving: bool = True
    """Jobs that allow it are moved to where less is in their way."""
    favour: float = 0.5
    """How much what is soon done is preferred where sizes are chosen: 0 not at all, 1 by one over the seconds left."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        jobs = snapshot.jobs
        waiting = jobs.waiting()
        sizing = self._sizing(snapshot)
        if len(waiting):
            rank = self.ranks(draft)
            if self.scaling:
                take_back_cpu(draft)
            if sizing:
                use_sizes(draft, rank, self.terms, self.patience)
            elif self._guards(snapshot, waiting):
                start_guarded(draft, by_key(waiting, rank[waiting]), self.patience, place_asked)
            else:
                run_best(draft, lambda rows: rank[rows])
        elif sizing:
            use_sizes(draft, np.zeros(jobs.count), self.terms, self.patience)
        if self.scaling and not len(waiting):
            lend_cpu(draft, self.cool_down)
        if self.moving and snapshot.used_cpu and snapshot.estimates.known:
            relocate(draft, Relocation(restart=self.restart / 2, interval=LOOK_AGAIN))
        return draft.plan()

    @property
    def terms(self) -> Terms:
        return Terms(cool_down=self.cool_down, restart=self.restart, margin=0.1, favour=self.favour)

    @property
    def tail(self) -> Tail:
        return Tail(
            share=self.latest_share, near=self.latest_near, far=self.latest_far, claim=self.latest_claim,
            stay=self.latest_stay, margin=self.margin, patience=self.patience,
        )  # fmt: skip

    def ranks(self, draft: Draft) -> FloatArray:
        """By row: the least comes first. Also asks to be called when a trial is half over, and over."""
        snapshot = draft.snapshot
        jobs, now = snapshot.jobs, snapshot.now
        rows = np.flatnonzero(~jobs.over())
        found, share = expected(snapshot, rows, self.trial), shares(snapshot, rows)
        state, trained = jobs.state[rows], jobs.trained_seconds(now)[rows]
        up = (state > int(State.WAITING)) & (state < int(State.STOPPING))
        running = state == int(State.RUNNING)
        seconds = self._tried(found, share, trained, up)
        seconds = np.where(
            running, np.maximum(seconds - self.restart, 0.0) / (1.0 + self.margin), seconds + self.restart
        )
        order = np.log2(1.0 + seconds * share**self.width_weight * 1e3) * 1e3
        spared = running & (now < all_cool_at(snapshot, rows, self.cool_down))
        trying = up & ~found.shown & ~found.odd & (trained < self.trial)
        tail = replace(self.tail, stay=0.0) if self._sizing(snapshot) else self.tail  # they shrink before they stop
        first = latest(snapshot, rows, found.seconds, share, tail) | self._at_risk(snapshot, rows, found, share)
        order = np.where(spared | (trying & running), 0.0, np.where(first, order * 1e-3, 1e3 + order))
        self._wake(draft, rows, trying & running, spared)
        rank = np.full(jobs.count, np.inf)
        rank[rows] = order + _CLASS * priority_class(snapshot, rows, self.user_priority, self.other_users)
        return rank

    def _tried(self, found: Expected, share: FloatArray, trained: FloatArray, up: BoolArray) -> FloatArray:
        """Expected seconds; of new jobs beyond the share for trials as if a trial told nothing."""
        new = ~found.shown & ~found.odd & (trained < self.trial)
        inside = first_within(np.where(up, np.inf, -found.seconds * share), share, self.trial_share, new)
        beyond = new & ~inside & ~up
        return np.where(beyond, np.maximum(found.median, found.seconds), found.seconds)

    def _at_risk(self, snapshot: Snapshot, rows: Rows, found: Expected, share: FloatArray) -> BoolArray:
        """Whose deadline can be met from now on, and soon no longer; the shortest first."""
        deadline = snapshot.jobs.deadline[rows]
        if not np.isfinite(deadline).any():
            return np.zeros(len(rows), np.bool_)
        up = snapshot.jobs.state[rows] > int(State.WAITING)
        slack = deadline - snapshot.now - found.seconds - np.where(up, 0.0, self.restart)
        risky = found.shown & (slack >= 0.0) & (slack <= self.deadline_guard * found.seconds)
        return first_within(-found.seconds * share, share, self.deadline_share, risky)

    def _wake(self, draft: Draft, rows: Rows, trying: BoolArray, spared: BoolArray) -> None:
        """When something will be decided otherwise although nothing happens."""
        jobs, now = draft.snapshot.jobs, draft.snapshot.now
        for chosen, after in ((trying, (self.trial / 2, self.trial)), (spared, (self.cool_down,))):
            if chosen.any():
                begun = (jobs.since if chosen is trying else jobs.touched)[rows[chosen]]
                for seconds in after:
                    due = begun + seconds
                    due = due[due > now]
                    if len(due):
                        draft.wake(float(due.min()) + 1e-3)

    def _sizing(self, snapshot: Snapshot) -> bool:
        return self.scaling and snapshot.jobs.any_elastic and snapshot.estimates.known

    def _guards(self, snapshot: Snapshot, waiting: Rows) -> bool:
        """Whether somebody has waited too long for a place that no stop can make."""
        if snapshot.jobs.all_can_stop:
            return False
        long_ = waiting[waited(snapshot, waiting) >= self.patience]
        return any(fits_empty(snapshot, int(row)) for row in long_[:8])
