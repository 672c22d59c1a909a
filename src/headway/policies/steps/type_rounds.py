"""Deciding in rounds who runs on which type of accelerators: the frame of Gavel's policies and of Sia.

At the beginning of a round each job that runs or waits is given a type or none. Those that are to run elsewhere or not
at all are stopped then. Within the round jobs start as soon as what was stopped is gone; nothing else changes. So a job
that arrives waits for the next round, and what an ended job leaves is idle until then. A round in which all jobs have
ended is over. Jobs that may not be stopped stay where they are. Jobs that ask for no accelerators, or fit on no type
alone, start in order of arrival where there is room left.

Unlike other policies, these remember: the round that they are in, and Gavel's what each job had since the last
programme. No snapshot has that. The same snapshots in the same order give the same plans; one from before the last
begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headway.core.draft import Draft
from headway.core.job import JobId
from headway.core.node import BoolArray, FloatArray
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place, place_any_size
from headway.policies.steps.by_type import needs, on_type, slots_of, stays, table, types_now
from headway.policies.value.lists import Types
from headway.policies.value.shares import solver
from headway.policies.value.times import Rows, service

UNKNOWN = 3600.0
"""Seconds left of a job of which nothing is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The jobs that a round is about, as columns."""

    now: float
    ids: list[JobId]
    seconds: FloatArray
    """(jobs, types): seconds left on each type; infinite where it does not run."""
    width: FloatArray
    slots: FloatArray
    """Accelerators of each type, without those that others hold."""
    at: Types
    """The type on which the job runs now; -1 where it waits."""
    fixed: BoolArray
    """Whether it stays there."""
    age: FloatArray
    """Seconds since submission."""
    trained: FloatArray
    """Seconds that it has trained."""
    service: FloatArray
    """The same, times its accelerators."""
    stops: FloatArray

    def only(self, these: Rows) -> Asked:
        """The same of these jobs."""
        return Asked(
            self.now, [self.ids[job] for job in these.tolist()], self.seconds[these], self.width[these], self.slots,
            self.at[these], self.fixed[these], self.age[these], self.trained[these], self.service[these],
            self.stops[these],
        )  # fmt: skip


Chosen = Iterable[tuple[int, int]]
"""Jobs by their place in what was asked, and the type of each; in the order in which they get room."""
Choose = Callable[[Asked], Chosen]


class TypeRounds:
    """A policy. `begin` makes what chooses; it is called anew when time goes back."""

    remembers: ClassVar[bool] = True

    def __init__(self, seconds: float, begin: Callable[[], Choose]) -> None:
        solver()
        self._seconds, self._begin = seconds, begin
        self._forget()

    def _forget(self) -> None:
        self._choose = self._begin()
        self._seen = self._end = -np.inf
        self._round: dict[JobId, int] = {}

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft, jobs = Draft(snapshot), snapshot.jobs
        rows, others = _parted(snapshot)
        if snapshot.now < self._seen:
            self._forget()
        self._seen = snapshot.now
        present = {jobs.job(row).id: row for row in rows.tolist()}
        if snapshot.now >= self._end or self._round.keys().isdisjoint(present):
            self._begin_round(draft, rows)
        for name, kind in self._round.items():
            row = present.get(name)
            if row is not None and jobs.state_of(row) is State.WAITING:
                where = place(snapshot, on_type(snapshot, draft.free, kind), jobs.shape_at(row))
                if where is not None:
                    draft.start(row, where)
        for row in others:
            found = place_any_size(snapshot, draft.free, row)
            if found is not None:
                draft.start(row, found)
        if len(rows):
            draft.wake(self._end)
        return draft.plan()

    def _begin_round(self, draft: Draft, rows: Rows) -> None:
        self._end, self._round = draft.snapshot.now + self._seconds, {}
        if not len(rows):
            return
        asked = _asked(draft, rows)
        self._round = {asked.ids[job]: kind for job, kind in self._choose(asked)}
        for job, row in enumerate(rows.tolist()):
            if asked.at[job] >= 0 and not asked.fixed[job] and self._round.get(asked.ids[job]) != asked.at[job]:
                draft.stop(row)


def _parted(snapshot: Snapshot) -> tuple[Rows, list[int]]:
    """Jobs that run or wait for accelerators of one type; and others that wait."""
    waiting, jobs = snapshot.jobs.waiting(), snapshot.jobs
    if not snapshot.nodes.types.names:
        return waiting[:0], waiting.tolist()
    rows = np.sort(np.concatenate([np.fromiter(snapshot.placements, np.intp, len(snapshot.placements)), waiting]))
    _, fits = needs(snapshot, jobs.shape[rows])
    at = types_now(snapshot, rows)
    here = fits.any(axis=1) & (at >= -1)
    here &= (at >= 0) | np.isin(rows, waiting)
    return rows[here], np.intersect1d(rows[~here], waiting).tolist()


def _asked(draft: Draft, rows: Rows) -> Asked:
    snapshot, jobs, estimates = draft.snapshot, draft.snapshot.jobs, draft.snapshot.estimates
    width, fits = needs(snapshot, jobs.shape[rows])
    at = types_now(snapshot, rows)
    slots: FloatArray = slots_of(draft, at, width)
    fits &= width[:, None] <= slots
    left = estimates.left_of(rows, snapshot.now) if estimates.known else np.full(len(rows), np.nan)
    on = table(estimates.on_types(rows.tolist()))[0] if estimates.tells_types else np.ones(fits.shape)
    seconds = np.maximum(np.where(np.isnan(left), UNKNOWN, left)[:, None] * on, 1.0)
    seconds = np.where(fits, seconds, np.inf)
    return Asked(
        now=snapshot.now, ids=[jobs.job(row).id for row in rows.tolist()], seconds=seconds, width=width,
        slots=np.maximum(slots, 1.0), at=at, fixed=(at >= 0) & stays(snapshot, rows),
        age=snapshot.now - jobs.submit[rows], trained=jobs.trained_seconds(snapshot.now)[rows],
        service=service(snapshot, rows), stops=jobs.stops[rows].astype(float),
    )  # fmt: skip


def fill(asked: Asked, order: Iterable[tuple[int, int]]) -> Chosen:
    """Of jobs and types in this order, each job once and as many as there is room for; those that stay come first."""
    room, found = asked.slots.copy(), dict[int, int]()
    stay = [(job, int(asked.at[job])) for job in asked.fixed.nonzero()[0].tolist()]
    for job, kind in (*stay, *order):
        if job not in found and asked.width[job] <= room[kind]:
            room[kind] -= asked.width[job]
            found[job] = kind
    return found.items()
