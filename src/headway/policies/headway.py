"""Headway, the default policy: all ideas composed. It comes near to shortest-remaining-time without being told any
times.

1. *Order.* The administrator's priorities come first. Then jobs are ordered by expected seconds times share of the
   cluster, the smallest first. What is expected comes from the job's reports, from its user or, before that, from
   similar jobs (`expected`). So a new job soon gets a trial, in which it shows its pace. Trials at one time have a
   bounded share of the cluster, and a job is not stopped during its trial.
2. *The tail.* One share of the cluster is for the jobs that would complete last (`tail`), another for deadlines at risk
   that can still be met.
3. *Room.* Where jobs can be scaled, new jobs start at the size that is worth most, and others shrink for them. Running
   jobs that rank behind are stopped where the gain is well above what stopping and starting costs, and not soon after
   they were started. Where jobs may not be stopped, a job that waited long reserves, and others pass only beside that.
4. *What is left.* When no job waits, running jobs grow where they gain most and use idle cpu up to their limits. At
   most one job moves to a better place.

Without estimates, and for jobs that are not believed, a job is taken to need as long again as it has trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.flags import any_of
from headway.core.node import BoolArray, FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place_asked
from headway.policies.ranges import Factor, Priority, Seconds, Share
from headway.policies.steps.by_type import TypeTerms, deal, needs_several, run_by_type, unlike, why_type
from headway.policies.steps.cool_down import all_cool_at
from headway.policies.steps.follow_use import follow_use
from headway.policies.steps.in_time import Outlook, ServeInTime
from headway.policies.steps.order import by_key, priority_class, rows_to_stop
from headway.policies.steps.preempt import run_best
from headway.policies.steps.relocate import Relocation, relocate, verdict
from headway.policies.steps.reserve import Guard, start_guarded
from headway.policies.steps.scale import use_sizes
from headway.policies.steps.spare_cpu import lend_cpu, take_back_cpu
from headway.policies.steps.start import fits_empty, left_waiting
from headway.policies.value.expected import Expected, expected
from headway.policies.value.in_time_by_type import DeadlineTerms
from headway.policies.value.ranking import Ranking, expected_of, place_of, why_first
from headway.policies.value.sizes import first_within, shares
from headway.policies.value.tail import Tail, in_tail
from headway.policies.value.terms import Terms
from headway.policies.value.times import Rows, waited
from headway.policies.value.worth import Worth

_CLASS = 1e6
"""Between classes of priority; ranks within a class are below it."""
LOOK_AGAIN = 60.0
"""Seconds after which moves are considered again, while jobs share the cpu of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headway:
    trial: Seconds = 120.0
    """Seconds that a new job has to show its pace, without being stopped. The policy also looks when half is over."""
    trial_share: Share = 0.5
    """Share of the cluster for trials at one time. Other new jobs are expected to take what similar jobs took."""
    width_weight: Factor = 1.0
    """1 ranks by seconds times share of the cluster, 0 by seconds alone."""
    margin: Factor = 0.25
    """A running job counts as shorter by this share: hysteresis, because estimates are never exact."""
    restart: Seconds = 30.0
    """Seconds that stopping a job and starting it again is taken to cost. A change must gain more."""
    cool_down: Seconds = 60.0
    """Seconds for which a job is left alone after it was started, scaled or moved."""
    patience: Seconds = 10_800.0
    """Seconds that a job must have waited: to reserve where no job may be stopped, to get its min size whatever that
    costs jobs that can shrink, or to be in the tail although it is wide.
    """
    tail_share: Share = 0.15
    """Share of the cluster for the tail. 0 lets long jobs wait for as long as there are shorter ones."""
    tail_near: Share = 0.7
    """The tail begins at this share of the expected completion of the last few of all jobs."""
    tail_far: Factor = 1.75
    """The tail also begins at this factor of the median completion of all jobs."""
    tail_stay: Share = 0.1
    """Share of the cluster. Jobs of the tail that together hold no more than this are not stopped. Not used where sizes
    are chosen, because there jobs shrink before they are stopped.
    """
    tail_claim: Factor = 1.0
    """Other jobs of the tail must have waited this factor of the time by which they delay the rest."""
    deadline_share: Share = 0.25
    """Share of the cluster within which jobs with deadlines come before others, each with the smallest size that is in
    time. Where a larger part of what living jobs ask for is theirs, that part."""
    confidence: Share = 0.8
    """The chance with which that size is in time."""
    deadline_guard: Factor = 0.5
    """A deadline is at risk where less slack is left than this share of the time left."""
    user_priority: tuple[tuple[str, float], ...] = ()
    """User and priority, set by the administrator. On the command line: a YAML file of names and numbers, or
    ann=8,bob=2."""
    other_users: Priority = 0.0
    """Priority of users who are not named."""
    scaling: bool = True
    """The scheduler chooses the sizes of jobs that allow it, and their cpu up to their limits."""
    idle_after: Seconds = 60.0
    """Seconds without a change after which a job holds little more cpu than it uses; 0 means never."""
    by_type: bool = True
    """Where nodes have several types of accelerators, jobs go where they gain most from the type."""
    moving: bool = True
    """Jobs that allow it are moved to nodes where they share less."""
    favour: Factor = 0.5
    """How much jobs that are soon done are preferred where sizes are chosen: 0 not at all, 1 by one over the seconds
    left."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        waiting = snapshot.jobs.waiting()
        if self.scaling and self.idle_after:
            follow_use(draft, self.idle_after)
        by_type = self._by_type(snapshot, waiting)
        if not by_type and self._with_deadlines(snapshot) and self._serve_deadlines(draft):
            return draft.plan()
        if by_type:
            self._run_by_type(draft, waiting)
        else:
            self._run(draft, waiting)
        if self.scaling and not len(waiting):
            lend_cpu(draft, self.cool_down)
        if self._moves(snapshot) and not by_type:
            relocate(draft, self.relocation)
        return draft.plan()

    def _run(self, draft: Draft, waiting: Rows) -> None:
        snapshot, sizing = draft.snapshot, self._sizing(draft.snapshot)
        if len(waiting):
            rank = self.ranks(draft)
            if self.scaling:
                take_back_cpu(draft)
            if sizing:
                use_sizes(draft, rank, self.terms, self.patience)
            elif self._guards(snapshot, waiting):
                guard = Guard(self.patience, keep_factor=1.0)
                start_guarded(draft, by_key(waiting, rank[waiting]), guard, place_asked)
            else:
                run_best(draft, lambda rows: rank[rows])
        elif sizing:
            use_sizes(draft, np.zeros(snapshot.jobs.count), self.terms, self.patience)

    def _run_by_type(self, draft: Draft, waiting: Rows) -> None:
        snapshot, ranking = draft.snapshot, self.ranking(draft.snapshot)
        self._wake(draft, ranking)
        if len(waiting) and self.scaling:
            take_back_cpu(draft)
        others = run_by_type(draft, ranking, ranking.rank // _CLASS, self._type_terms)
        if others:  # without accelerators, or on several types at once
            rank = ranking.column(snapshot.jobs.count)
            run_best(draft, lambda rows: rank[rows])

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """What is expected of the job, its place in the order, and what is said of its size and of moving it."""
        state = snapshot.jobs.state_of(row)
        if state not in (State.WAITING, State.RUNNING):
            return {}
        ranking = self.ranking(snapshot)
        here = int(np.searchsorted(ranking.rows, row))
        told: dict[str, Any] = {
            "expected": expected_of(snapshot, row),
            "order": place_of(snapshot, ranking, here),
        }
        if self._by_type(snapshot, snapshot.jobs.waiting()):
            dealt = deal(Draft(snapshot), ranking, ranking.rank // _CLASS, self._type_terms)
            told |= {} if dealt is None else why_type(snapshot, dealt, row)
        else:
            told |= why_first(ranking, here)
        if self._with_deadlines(snapshot):
            told |= self.deadlines.explain(snapshot, row)
        if self._sizing(snapshot) and snapshot.jobs.shape_at(row).elastic:
            size = Worth(snapshot, self.terms).why_not(row)
            told |= {"size": size} if size else {}
        if self._moves(snapshot) and state is State.RUNNING:
            told["move"] = verdict(snapshot, row, self.relocation)
        return told

    @property
    def deadlines(self) -> ServeInTime:
        """By which jobs with deadlines are served first."""
        return ServeInTime(confidence=self.confidence, cool_down=self.cool_down, restart=min(self.restart, 10.0))

    @property
    def _type_terms(self) -> TypeTerms:
        look_again = min(self.trial / 2, self.cool_down) + 1e-3
        told = self.deadlines
        served = DeadlineTerms(
            share=self.deadline_share, confidence=told.confidence, restart=self.restart, margin=told.margin,
            hopeless=told.hopeless, packing=told.packing,
        )  # fmt: skip
        served_at_all = served if self.deadline_share > 0 else None
        return TypeTerms(trial=self.trial, restart=self.restart, look_again=look_again, deadlines=served_at_all)

    @property
    def terms(self) -> Terms:
        return Terms(cool_down=self.cool_down, restart=self.restart, margin=0.1, favour=self.favour)

    @property
    def relocation(self) -> Relocation:
        return Relocation(restart=self.restart / 2, interval=LOOK_AGAIN)

    def tail(self, *, sizing: bool) -> Tail:
        """Where sizes are chosen, jobs shrink before they are stopped: then none of the tail stays for its own sake."""
        return Tail(
            share=self.tail_share, near=self.tail_near, far=self.tail_far, claim=self.tail_claim,
            stay=0.0 if sizing else self.tail_stay, margin=self.margin, patience=self.patience,
        )  # fmt: skip

    def ranks(self, draft: Draft) -> FloatArray:
        """By row: the smallest comes first. Also asks to be called when a trial is half over, and over."""
        ranking = self.ranking(draft.snapshot)
        self._wake(draft, ranking)
        return ranking.column(draft.snapshot.jobs.count)

    def _wake(self, draft: Draft, ranking: Ranking) -> None:
        snapshot = draft.snapshot
        if any_of(ranking.in_trial):
            began = snapshot.jobs.since[ranking.rows[ranking.in_trial]]
            _wake_after(draft, began, self.trial / 2)
            _wake_after(draft, began, self.trial)
        if any_of(ranking.cooling):
            _wake_after(draft, snapshot.jobs.touched[ranking.rows[ranking.cooling]], self.cool_down)

    def ranking(self, snapshot: Snapshot) -> Ranking:
        """In each class of priority: first running jobs that are left alone, then tail and deadlines, then the rest."""
        jobs = snapshot.jobs
        rows = (~jobs.over()).nonzero()[0]
        found, share = expected(snapshot, rows, self.trial), shares(snapshot, rows)
        state = jobs.state[rows]
        up, running = (state > int(State.WAITING)) & (state < int(State.STOPPING)), state == int(State.RUNNING)
        new = ~found.shown & (jobs.trained_seconds(snapshot.now)[rows] < self.trial)
        in_trial = running & new
        cooling = running & (snapshot.now < all_cool_at(snapshot, rows, self.cool_down))
        tail = self.tail(sizing=self._sizing(snapshot))
        in_the_tail = in_tail(snapshot, rows, found.seconds, share, tail)
        at_risk = self._at_risk(snapshot, rows, found, share)

        seconds = self._without_trials(found, share, new, up)
        seconds = np.where(
            running, np.maximum(seconds - self.restart, 0.0) / (1.0 + self.margin), seconds + self.restart
        )
        order = np.log2(1.0 + seconds * share**self.width_weight * 1e3) * 1e3
        order = np.where(in_the_tail | at_risk, order * 1e-3, 1e3 + order)
        order = np.where(cooling | in_trial, 0.0, order)
        rank = order + _CLASS * priority_class(snapshot, rows, self.user_priority, self.other_users)
        return Ranking(rows, found, in_the_tail, at_risk, in_trial, cooling, rank)

    def _without_trials(self, found: Expected, share: FloatArray, new: BoolArray, up: BoolArray) -> FloatArray:
        """Expected seconds. New jobs beyond the share for trials take what similar jobs took: a trial is no option."""
        inside = first_within(np.where(up, np.inf, -found.seconds * share), share, self.trial_share, new)
        beyond = new & ~inside & ~up
        return np.where(beyond, np.maximum(found.median, found.seconds), found.seconds)

    def _at_risk(self, snapshot: Snapshot, rows: Rows, found: Expected, share: FloatArray) -> BoolArray:
        """Jobs whose deadline can be met from now on, and soon no longer; the shortest first."""
        deadline = snapshot.jobs.deadline[rows]
        if not any_of(np.isfinite(deadline)):
            return np.zeros(len(rows), np.bool_)
        up = snapshot.jobs.state[rows] > int(State.WAITING)
        slack = deadline - snapshot.now - found.seconds - np.where(up, 0.0, self.restart)
        risky = found.shown & (slack >= 0.0) & (slack <= self.deadline_guard * found.seconds)
        return first_within(-found.seconds * share, share, self.deadline_share, risky)

    def _with_deadlines(self, snapshot: Snapshot) -> bool:
        known = self.deadline_share > 0 and snapshot.estimates.known
        return known and any_of(np.isfinite(snapshot.jobs.deadline))

    def _serve_deadlines(self, draft: Draft) -> bool:
        """Starts, grows and shrinks jobs with deadlines as they need it. Returns whether room is being made for one:
        then nothing else may take it.
        """
        snapshot, jobs, policy = draft.snapshot, draft.snapshot.jobs, self.deadlines
        waiting = jobs.waiting()
        _leave_just_stopped(draft, waiting)
        rows = np.concatenate([jobs.running(), waiting])
        with_deadline = rows[np.isfinite(jobs.deadline[rows])]
        if not len(with_deadline):
            return False
        asked = shares(snapshot, rows)
        theirs = float(shares(snapshot, with_deadline).sum() / max(float(asked.sum()), 1e-9))
        outlook = policy.outlook(snapshot, with_deadline.tolist(), max(self.deadline_share, theirs))
        short = policy.serve(draft, outlook)
        if short is not None and policy.make_room(draft, short, outlook, self._behind(snapshot, short, outlook)):
            return True
        if len(left_waiting(draft, waiting)):
            policy.keep(draft, outlook)
        return False

    def _behind(self, snapshot: Snapshot, row: int, outlook: Outlook) -> list[int]:
        """Running jobs that may be stopped for this one's deadline: of no higher priority, the worst-ranked first."""
        ranking = self.ranking(snapshot)
        rank = ranking.column(snapshot.jobs.count)
        class_end = (rank[row] // _CLASS + 1.0) * _CLASS
        may = [other for other in rows_to_stop(snapshot).tolist() if other not in outlook.sizes]
        return sorted((other for other in may if rank[other] >= class_end - _CLASS), key=lambda one: (-rank[one], one))

    def _by_type(self, snapshot: Snapshot, waiting: Rows) -> bool:
        """Whether jobs are dealt out to types. Not where a job has waited long that needs several types together, or
        for a place that no stop can make.
        """
        if not self.by_type or not unlike(snapshot) or self._sizing(snapshot) or self._guards(snapshot, waiting):
            return False
        long_ = waiting[waited(snapshot, waiting) >= self.patience]
        return not len(long_) or not any_of(needs_several(snapshot, long_))

    def _sizing(self, snapshot: Snapshot) -> bool:
        return self.scaling and snapshot.jobs.any_elastic and snapshot.estimates.known

    def _moves(self, snapshot: Snapshot) -> bool:
        return self.moving and bool(snapshot.used_cpu) and snapshot.estimates.known

    def _guards(self, snapshot: Snapshot, waiting: Rows) -> bool:
        """Whether a job has waited too long for a place that no stop can make."""
        if snapshot.jobs.all_can_stop:
            return False
        long_ = waiting[waited(snapshot, waiting) >= self.patience]
        return any(fits_empty(snapshot, int(row)) for row in long_[:8])


def _wake_after(draft: Draft, begun: FloatArray, seconds: float) -> None:
    """Asks to be called when the next of these periods is over: something is decided otherwise then."""
    due = begun + seconds
    due = due[due > draft.snapshot.now]
    if len(due):
        draft.wake(float(due.min()) + 1e-3)


def _leave_just_stopped(draft: Draft, waiting: npt.NDArray[np.intp]) -> None:
    """What was stopped for a deadline in this very moment is not started again in it: that would be a stop for
    nothing. Where stops take time, nothing is.
    """
    now, jobs = draft.snapshot.now, draft.snapshot.jobs
    just = waiting[jobs.touched[waiting] == now]
    for row in just.tolist():
        draft.leave(row)
    if len(just):
        draft.wake(now + 1.0)
