"""Combined priority: the user, the job's urgency, its time waited and its width in one number.

    U = user priority / most      J = job priority / most      W = min(1, waited / longest)
    D = log2(1 + replicas) / log2(1 + widest)                  P = a U + b J + c W + d D

Jobs start in order of P, whole gangs or nothing; a job that does not fit lets others pass. Age lifts a job by at most
c. A job that has waited the longest wait reserves, which ends starvation. A job whose user and job priority together
are high is urgent: it reserves as soon as it does not fit, and may stop jobs far below it. Inside a job parameter
servers come first; servers and workers are grouped in buckets and placed by `affinity`.

The administrator sets the priority of users in the policy's settings. No job can claim one for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.affinity import place_any_by_role, place_any_in_buckets
from headway.policies.ranges import Count, Factor, Highest, Priority, Seconds
from headway.policies.steps.order import by_key, rows_to_stop
from headway.policies.steps.reserve import DESPERATE, Guard, Pressing, start_guarded
from headway.policies.value.times import Rows, unsaved, waited


@dataclass(frozen=True, slots=True)
class Score:
    """A job's priority and its parts, each already weighted, so that they add up."""

    user: float
    job: float
    wait: float
    parallelism: float

    @property
    def total(self) -> float:
        return self.user + self.job + self.wait + self.parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedPriority:
    user_weight: Factor = 0.30
    job_weight: Factor = 0.30
    wait_weight: Factor = 0.25
    """The max by which age can lift a job."""
    parallelism_weight: Factor = 0.15
    max_user_priority: Highest = 10.0
    max_job_priority: Highest = 10.0
    longest_wait: Seconds = 86_400.0
    """Seconds after which age lifts no further, and a job that still does not fit reserves."""
    widest: Count = 64
    """Replicas of the widest job that is expected; wider ones count as this."""
    user_priority: tuple[tuple[str, float], ...] = ()
    """User and priority, 0 to `max_user_priority`. On the command line: a YAML file of names and numbers, or
    ann=8,bob=2.
    """
    other_users: Priority = 0.0
    """Priority of users who are not named."""
    urgent: Factor = 0.5
    """User and job priority together (a U + b J), as a share of the max. From this on a job reserves as soon as it does
    not fit; above 1: never.
    """
    preempt: Factor = 0.0
    """An urgent job that does not fit stops jobs whose share is lower by at least this (0.15 is a good step): as few as
    will do, those with least work lost first. 0 stops none.
    """
    max_stops: Count = 2
    """A job that was stopped this often is not stopped again; nor is one that has waited four times the
    longest wait.
    """
    affinity: bool = True
    """Place by buckets of servers and workers. Without it each role is placed by itself."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        rows = snapshot.jobs.waiting()
        if len(rows):
            ordered = by_key(rows, (2.0 - self.parts(snapshot, rows).sum(axis=0)).clip(min=0.0) * 1e6)
            placer = place_any_in_buckets if self.affinity else place_any_by_role
            guard = Guard(self.longest_wait, pressing=self._pressing(snapshot, ordered))
            start_guarded(draft, ordered, guard, placer)
        return draft.plan()

    def standing(self, snapshot: Snapshot, rows: Rows) -> FloatArray:
        """User and job priority together, 0 to 1: the part that neither waiting nor width changes."""
        most = self.user_weight + self.job_weight
        share: FloatArray = self.parts(snapshot, rows)[:2].sum(axis=0) / (most if most > 0 else 1.0)
        return share

    def _pressing(self, snapshot: Snapshot, ordered: Rows) -> Pressing | None:
        urgent = self.standing(snapshot, ordered) >= self.urgent
        return Pressing(urgent, lambda row: self._below(snapshot, row)) if urgent.any() else None

    def _below(self, snapshot: Snapshot, row: int) -> list[int]:
        """Running jobs that may be stopped for this one, those that lose least work first."""
        if self.preempt <= 0:
            return []
        jobs, rows = snapshot.jobs, rows_to_stop(snapshot)
        here = float(self.standing(snapshot, np.array([row]))[0])
        may = jobs.stops[rows] < self.max_stops
        may &= self.standing(snapshot, rows) <= here - self.preempt + 1e-9
        may &= waited(snapshot, rows) < DESPERATE * self.longest_wait
        rows = rows[may]
        order = np.lexsort((-jobs.submit[rows], unsaved(snapshot, rows)))
        return [int(one) for one in rows[order]]

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """The score of a waiting job and its parts."""
        if snapshot.jobs.state_of(row) is not State.WAITING:
            return {}
        score = self.score(snapshot, row)
        return {"score": {"total": score.total, **asdict(score)}}

    def score(self, snapshot: Snapshot, row: int) -> Score:
        """One job's priority with its parts."""
        return Score(*(float(part) for part in self.parts(snapshot, np.array([row]))[:, 0]))

    def parts(self, snapshot: Snapshot, rows: Rows) -> FloatArray:
        """(parts, rows): user, job, wait, parallelism, each weighted."""
        jobs = snapshot.jobs
        given = dict(self.user_priority)
        users = np.full(max(len(jobs.users), 1), self.other_users)
        for name, number in jobs.users.items():
            users[number] = given.get(name, self.other_users)
        width = np.log2(1.0 + jobs.width[rows]) / np.log2(1.0 + max(self.widest, 1))
        parts: FloatArray = np.stack(
            [
                self.user_weight * np.clip(users[jobs.user[rows]] / self.max_user_priority, 0.0, 1.0),
                self.job_weight * np.clip(jobs.priority[rows] / self.max_job_priority, 0.0, 1.0),
                self.wait_weight * np.minimum(1.0, waited(snapshot, rows) / max(self.longest_wait, 1e-9)),
                self.parallelism_weight * np.minimum(1.0, width),
            ]
        )
        return parts
