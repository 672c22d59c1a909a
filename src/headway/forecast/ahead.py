"""One possible future: the present goes on with a draw of what is believed, under the policy that decides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headway.core.estimates import Basis, Beliefs, CodeArray
from headway.core.job import Job, JobId
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.core.placement import Placement
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.states import OVER, TRAINING
from headway.cycle.loop import Fallback, decide
from headway.estimates.plain_books import OracleBook
from headway.estimates.speed.accelerators import type_at
from headway.forecast.present import ANY_LENGTH, FEWEST_ARRIVALS, UNKNOWN_SECONDS, Present
from headway.sim.cluster import SimCluster
from headway.sim.from_snapshot import from_snapshot
from headway.sim.speed import SharingEffect
from headway.sim.world import World

PACE_SECONDS = 60.0
"""After so long in training a job has shown how long it takes, if it reports at all."""
MOST_ARRIVALS = 1000
ALIKE = 0.5
"""The share of what is off (as a variance) that all jobs of one user and model have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What is true in this future."""

    left: FloatArray
    """By row of the present: seconds of training left."""
    coming: tuple[Job, ...] = ()
    """In the order in which they come."""
    works: dict[JobId, float] | None = None
    """Seconds that each of those trains."""


def draw(present: Present, chance: np.random.Generator | None) -> Draw:
    """By chance; without it everything is as in the middle of what is believed."""
    time_left, rows = present.time_left, range(present.jobs.count)
    to_come = present.to_come
    works = {job.id: job.seconds or _usual(present) for job in to_come}
    if chance is None:
        return Draw(time_left.median, to_come, works)
    off = time_left.off * _normal([present.jobs.job(row) for row in rows], ~time_left.reported, chance)
    spread = np.array([0.25 if job.seconds else ANY_LENGTH for job in to_come])
    later = spread * _normal(to_come, np.ones(len(to_come), np.bool_), chance)
    works = {job.id: works[job.id] * float(np.exp(one)) for job, one in zip(to_come, later, strict=True)}
    more = _arrivals(present, chance)
    coming = sorted((*to_come, *(job for job, _ in more)), key=lambda job: job.submit)
    return Draw(time_left.median * np.exp(off), tuple(coming), {**works, **{job.id: work for job, work in more}})


def _usual(present: Present) -> float:
    return float(np.median(present.time_left.median)) if present.jobs.count else UNKNOWN_SECONDS


def _normal(jobs: tuple[Job, ...] | list[Job], vague: BoolArray, chance: np.random.Generator) -> FloatArray:
    """Normal numbers. Where jobs have not reported, those alike are off together."""
    own = chance.standard_normal(len(jobs))
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys((job.user, job.model) for job in jobs))}
    common = chance.standard_normal(len(kinds))[[kinds[job.user, job.model] for job in jobs]]
    return np.where(vague, np.sqrt(ALIKE) * common + np.sqrt(1.0 - ALIKE) * own, own)


def _arrivals(present: Present, chance: np.random.Generator) -> list[tuple[Job, float]]:
    """Further jobs like those that came: stretches of those seen, with the pauses between them, so that they come in
    bursts where those did. How often they come is not certain, nor how long they go on coming: in half of the futures
    for longer than until now.
    """
    seen = present.seen
    if seen.arrivals < FEWEST_ARRIVALS:
        return []
    share = chance.uniform()
    longer, length = share / (1.0 - share), math.ceil(math.sqrt(seen.arrivals))
    count = min(MOST_ARRIVALS, math.ceil(2.0 * longer * seen.arrivals))
    begins = chance.integers(seen.arrivals, size=math.ceil(count / length))
    which = ((begins[:, None] + np.arange(length)) % seen.arrivals).ravel()[:count]
    slower = seen.arrivals / chance.gamma(seen.arrivals)
    after = np.cumsum(seen.gaps[which]) * slower
    at = present.snapshot.now + after[after < longer * seen.gaps.sum()]
    found = []
    for number, (like, submit) in enumerate(zip(which.tolist(), at.tolist(), strict=False)):
        job = seen.jobs[like]
        deadline = None if job.deadline is None else submit + job.deadline - job.submit
        # No job of a user has a blank in its name.
        found.append((replace(job, id=JobId(f"arrival {number}"), submit=submit, deadline=deadline),
                      max(1.0, float(seen.seconds[like]))))  # fmt: skip
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """By name: when a job is up for the first time from now on, and when it ends. Jobs that do not are left out."""

    starts: dict[JobId, float]
    ends: dict[JobId, float]


def ahead(
    present: Present, policy: Policy, drawn: Draw, safe: Policy | None = None, stop: Callable[[], bool] = lambda: False
) -> Times:
    """Lets this future happen until all present jobs are over, or `stop` says so. `safe` decides where the policy
    fails.
    """
    works = drawn.works or {}

    def speed(job: Job, placement: Placement, nodes: Nodes, _effect: SharingEffect) -> float:
        on = present.speed_on(job).get(type_at(job, placement, nodes), 1.0) if present.on_types else 1.0
        return present.speed(job, placement.counts) * on

    world = World(costs=present.costs, speed=speed, work=lambda job: works.get(job.id), samples=False)
    cluster = from_snapshot(present.snapshot, world, drawn.coming, drawn.left)
    believed = _Believed.of(present, drawn, cluster)
    book = OracleBook(believed.beliefs, present.speed, present.speed_on if present.on_types else None)
    cycle = decide if safe is None else Fallback(safe).decide
    asked = {present.jobs.job(row).id for row in range(present.jobs.count)} | {job.id for job in present.to_come}
    times, standing = Times({}, {}), present.snapshot.standing
    while len(times.ends) < len(asked) and (snapshot := cluster.next_snapshot()) is not None and not stop():
        _note(snapshot, asked, times, present.snapshot.now)
        cluster.apply(cycle(policy, book.annotate(snapshot).standing_as(standing)).plan)
    return times


def _note(snapshot: Snapshot, asked: set[JobId], times: Times, began: float) -> None:
    jobs = snapshot.jobs
    for row in snapshot.changed:
        job, state = jobs.job(row).id, jobs.state_of(row)
        if job not in asked or (state not in TRAINING and state not in OVER):
            continue
        if job not in times.starts:
            since, first = jobs.values(row, ("since", "first_start"))
            times.starts[job] = first if first >= began else since
        if state in OVER:
            times.ends.setdefault(job, snapshot.now)


@dataclass(frozen=True, slots=True, eq=False)
class _Believed:
    """What the policy is told in this future: what is believed now, and the truth once a job has shown it.

    Columns by arrival number: first the present jobs, then those that come.
    """

    cluster: SimCluster
    total: FloatArray
    """Seconds that the job trains in all; NaN where nothing is known."""
    basis: CodeArray
    spread: FloatArray
    reported: BoolArray
    """It has shown its pace already."""
    silent: BoolArray
    """It has trained long enough, and reports nothing."""

    @classmethod
    def of(cls, present: Present, drawn: Draw, cluster: SimCluster) -> _Believed:
        left, coming = present.time_left, drawn.coming
        trained = present.jobs.trained_seconds(present.snapshot.now)
        usual, declared = _usual(present), np.array([job.seconds or np.nan for job in coming])
        more = np.zeros(len(coming), np.bool_)
        basis = np.where(np.isnan(declared), int(Basis.HISTORY), int(Basis.DECLARED))
        told = np.where(left.basis == int(Basis.NOTHING), np.nan, left.median + trained)
        return cls(
            cluster, np.concatenate([told, np.where(np.isnan(declared), usual, declared)]),
            np.concatenate([left.basis, basis]).astype(np.uint8),
            np.concatenate([left.spread, np.where(np.isnan(declared), 1.0, np.nan)]),
            np.concatenate([left.reported, more]),
            np.concatenate([~left.reported & (trained > PACE_SECONDS), more]),
        )  # fmt: skip

    def beliefs(self, snapshot: Snapshot) -> Beliefs:
        jobs, true = snapshot.jobs, self.cluster.truth(snapshot)
        serial, trained = jobs.serial, jobs.trained_seconds(snapshot.now)
        shown = self.reported[serial] | ((trained >= PACE_SECONDS) & ~self.silent[serial])
        count = len(serial)
        return Beliefs(
            np.where(shown, true.left, np.maximum(self.total[serial] - jobs.attained, 0.0)),
            np.where(shown, true.at, jobs.since), np.where(shown, true.burning, jobs.training()),
            np.where(shown, 0.05, self.spread[serial]), np.zeros(count, np.uint8), np.full(count, np.nan),
            np.where(shown, int(Basis.STEPS), self.basis[serial]).astype(np.uint8),
        )  # fmt: skip
