"""Elastic: gangs are placed by affinity, and sized by what a replica gains here against what it is worth elsewhere.

1. Waiting jobs start, the smallest area first, at the size that is worth most beside other jobs that could use the
   room.
2. For a job that finds no room, running jobs shrink: first those that lose least, lonely workers first. They shrink as
   long as the waiting job gains more than they lose. A job that has waited long gets its min whatever that costs.
3. What does not help is given back: workers that make a job no faster, and cpu that it holds and does not use.
4. What is left goes to running jobs where it gains most, never beyond the size at which they are fastest.

No job is stopped. A job of which nothing usable is known is never scaled: it starts at the size it asked for and keeps
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.draft import Draft
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.core.text import lasting
from headway.policies.placing.affinity import place_near
from headway.policies.ranges import Factor, Seconds, Share
from headway.policies.steps.elastic_start import smallest_first, start_elastic
from headway.policies.steps.gather import gather
from headway.policies.steps.grow import grow_into_idle
from headway.policies.steps.release import Idle, release_cpu, release_useless
from headway.policies.steps.shrink import shrink_for
from headway.policies.steps.start import left_waiting
from headway.policies.value.sizes import bounds
from headway.policies.value.terms import Terms
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth

TRIED = 8
"""Waiting jobs for which room is looked for in one plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    affinity: bool = True
    """Gangs go on the fewest nodes, servers next to workers. Without it each role goes where it fits best."""
    scaling: bool = True
    """The scheduler chooses sizes. Without it every job has what it asked for, all its life."""
    favour: Factor = 0.5
    """How much jobs that are soon done are preferred, in the order of starts and in what a replica is worth: 0 not at
    all (then jobs start by arrival), 1 by one over the seconds left.
    """
    margin: Factor = 0.10
    """Hysteresis: a new job must gain this share more than others lose by shrinking for it, and added replicas must
    bring at least this share of what they would bring if speed grew in proportion.
    """
    cool_down: Seconds = 60.0
    """Seconds for which a job is left as it is after a decision about it."""
    cool_down_share: Factor = 0.05
    """Share of what it has trained for which a job is left as it is, where that is longer. So a job is changed more
    rarely the longer it runs. Used only where estimates are learnt from progress, and so change themselves.
    """
    restart: Seconds = 30.0
    """Seconds that a change is taken to cost. Growing must save more."""
    patience: Seconds = 3600.0
    """Seconds after which a waiting job comes first, and others shrink for its min size whatever that costs."""
    idle: Share = 0.2
    """Cpu is cut where a job uses less than this share of what it holds; 0 means never."""
    headroom: Factor = 1.0
    """Share that is then left above what is used. 1 leaves twice as much, because usage is a mean: a replica uses more
    while it computes than while it exchanges. A job that a cut slows down gets its cpu back for good.
    """

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        worth = Worth(snapshot, self.terms)
        ordered = smallest_first(worth, snapshot.jobs.waiting(), self.patience)
        if not self.scaling:
            _start_as_asked(draft, ordered, worth)
            return draft.plan()
        start_elastic(draft, ordered, worth)
        left = left_waiting(draft, ordered)
        busy = self._make_room(draft, left, worth)
        running = snapshot.jobs.running().tolist()
        if self.idle and snapshot.used_cpu:
            release_cpu(draft, running, worth, Idle(self.idle, self.headroom))
        release_useless(draft, worth)
        if not busy:
            gather(draft, worth)
            grow_into_idle(draft, worth)
        return draft.plan()

    @property
    def terms(self) -> Terms:
        return Terms(
            cool_down=self.cool_down, cool_down_share=self.cool_down_share, restart=self.restart, margin=self.margin,
            favour=self.favour, affinity=self.affinity,
        )  # fmt: skip

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """Why this job keeps its size, and that its length counts as an hour where it waits and that is unknown."""
        if snapshot.jobs.state_of(row) not in (State.RUNNING, State.WAITING):
            return {}
        if not self.scaling:
            return {"size": "It keeps its size: scaling is switched off."}
        worth, told = Worth(snapshot, self.terms), dict[str, Any]()
        if why := worth.why_not(row):
            told["size"] = why
        if snapshot.jobs.state_of(row) is State.WAITING and snapshot.estimates.known and worth.is_unknown(row):
            sentence = "How long it takes is unknown, so it counts as an hour: jobs that are sooner done do not shrink "
            sentence += "for it"
            sentence += f" until it has waited for {lasting(self.patience)}." if self.patience < math.inf else "."
            told["length"] = {"sentence": sentence, "remedy": "its seconds declared"}
        return told

    def _make_room(self, draft: Draft, left: Rows, worth: Worth) -> bool:
        """Makes room for the first waiting job that is worth it, or is due. Returns whether what is free must be left
        alone.
        """
        snapshot, tried = draft.snapshot, set[int]()
        soon = draft.soon() if len(left) else draft.free
        for row in left.tolist():
            if int(snapshot.jobs.shape[row]) in tried:
                continue
            if len(tried) == TRIED:
                return False
            tried.add(int(snapshot.jobs.shape[row]))
            path, due = worth.path(row), float(snapshot.jobs.since[row]) + self.patience
            if place_near(snapshot, soon, snapshot.jobs.shape_at(row), path[0], worth.terms.affinity) is not None:
                return True  # room is being made already
            forced = snapshot.now >= due
            draft.wake(due)
            givers = snapshot.jobs.running().tolist()
            if shrink_for(draft, row, path, worth, forced=forced) is not None:
                return True
            if forced and bool(snapshot.flights or len(givers)) and _could_be_helped(worth, row, givers):
                return True
        return False


def _could_be_helped(worth: Worth, row: int, givers: list[int]) -> bool:
    """Whether another job could shrink once its cool-down is over. Then no job grows meanwhile."""
    snapshot = worth.snapshot
    return any(snapshot.placements[giver].counts != bounds(snapshot, giver)[0] for giver in givers if giver != row)


def _start_as_asked(draft: Draft, ordered: Rows, worth: Worth) -> None:
    snapshot, failed = draft.snapshot, set[int]()
    for row in ordered.tolist():
        shape = snapshot.jobs.shape_at(row)
        if int(snapshot.jobs.shape[row]) in failed:
            continue
        placement = place_near(snapshot, draft.free, shape, shape.counts, worth.terms.affinity)
        if placement is not None:
            draft.start(row, placement)
        else:
            failed.add(int(snapshot.jobs.shape[row]))
