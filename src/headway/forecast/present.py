"""What a forecast starts from: a snapshot with what is believed of its jobs, how far off that may be, and arrivals.

Example: a job has 600 s left by its steps, give or take 5 %. Another waits, and jobs alike took 300 s, most of them
between 150 and 600 s. A job came every ten minutes so far. All of that is a value: nobody writes to it any more, so
that another thread may simulate it ahead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headway.core.estimates import OVERRUN_SHARE, Basis, CodeArray, Counts
from headway.core.job import Job, JobId
from headway.core.jobs.view import Jobs
from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Flight, Snapshot
from headway.core.states import State
from headway.estimates.models.scaling import plain_speed
from headway.sim.from_snapshot import from_snapshot
from headway.sim.world import Costs

UNKNOWN_SECONDS = 600.0
"""Of a job of which nothing at all is known, before it has trained as long."""
ANY_LENGTH = 1.5
"""Spread of lengths where nothing is known, as a logarithm: four of five within a factor of seven."""
OFF: Mapping[Basis, float] = {
    Basis.DECLARED: 0.25, Basis.HISTORY: 0.25, Basis.STEPS: 0.03, Basis.CURVE: 0.3, Basis.TARGET: 0.2,
}  # fmt: skip
"""How far time left is off beside what the book says of it, as a logarithm. Others, which are not believed: 1."""
_OFF = np.array([OFF.get(basis, 1.0) for basis in sorted(Basis)])
_OWN_REPORTS = np.isin(np.arange(len(Basis)), [Basis.STEPS, Basis.CURVE, Basis.TARGET])
_FROM_OTHERS = np.isin(np.arange(len(Basis)), [Basis.NOTHING, Basis.HISTORY])
FEWEST_LENGTHS = 5
NEW_SECONDS = 60.0
"""A job that has trained less has not shown anything yet."""
WIDER = 1.2
"""How much farther off jobs are that do not report than is known of them, by `bench/eta.py`."""
WEIGHT = 4.0
"""As many finished jobs weigh as much as what is assumed of declared times without any."""
FEWEST_ARRIVALS = 5
"""From so many on, further jobs are expected to come like those before."""
MOST_SIZES = 32
"""Sizes of a job whose speed is asked of the book; beyond these it is taken to scale as jobs commonly do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeLeft:
    """Columns by row."""

    median: FloatArray
    """Seconds of training left, at the present size or at the requested one while the job waits."""
    off: FloatArray
    """Standard deviation of its logarithm."""
    basis: CodeArray
    spread: FloatArray
    """As the book has it."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> TimeLeft:
        jobs, estimates, count = snapshot.jobs, snapshot.estimates, snapshot.jobs.count
        trained = jobs.trained_seconds(snapshot.now)
        median, spread, basis = np.full(count, np.nan), np.full(count, np.nan), np.zeros(count, np.uint8)
        if estimates.known:
            median, spread = estimates.left(snapshot.now).copy(), estimates.spread()
            told = estimates.beliefs.basis
            basis = np.where(np.isnan(median), Basis.NOTHING, Basis.DECLARED) if told is None else told
            basis = basis.astype(np.uint8)
        off = np.hypot(np.nan_to_num(spread), _OFF[basis])
        declared = basis == int(Basis.DECLARED)
        if declared.any():
            factor, off[declared] = _when_declared(jobs)
            median[declared] *= factor
        past = (median <= 0.0) & (trained > 0.0)
        median[past], off[past] = OVERRUN_SHARE * trained[past], 1.0
        unknown = np.isnan(median)
        if unknown.any():
            lengths = np.log(jobs.attained[(jobs.state == int(State.FINISHED)) & (jobs.attained > 0.0)])
            median[unknown], off[unknown] = _as_those_before(lengths, trained[unknown])
        found = cls(median=median, off=off, basis=basis, spread=spread)
        _allow_for_the_long(jobs, found, trained)
        off[~found.reported] *= WIDER
        return found

    def rows(self, chosen: BoolArray) -> TimeLeft:
        return TimeLeft(
            median=self.median[chosen], off=self.off[chosen], basis=self.basis[chosen], spread=self.spread[chosen]
        )

    @property
    def reported(self) -> BoolArray:
        """Whether it comes from the job's own reports."""
        found: BoolArray = _OWN_REPORTS[self.basis]
        return found


def _allow_for_the_long(jobs: Jobs, time_left: TimeLeft, trained: FloatArray) -> None:
    """What like jobs took is known of those that have finished, and early in a run only short ones have.

    So where all jobs of the run are in view, those of which nothing else is known are taken to be as long, all in all,
    as those that have finished or have shown how long they take.
    """
    new = _FROM_OTHERS[time_left.basis] & ~jobs.over() & (trained < NEW_SECONDS)
    if not new.any() or jobs.serial[-1] - jobs.serial[0] + 1 != jobs.count:
        return
    shown = time_left.reported & ~jobs.over()
    ended = (jobs.state == int(State.FINISHED)) & (jobs.attained > 0.0)
    lengths = np.log(np.concatenate([jobs.attained[ended], (trained + time_left.median)[shown]]))
    if len(lengths) < FEWEST_LENGTHS:
        return
    low, middle, high = np.quantile(lengths, (0.25, 0.5, 0.75)).tolist()
    longer = max(0.0, middle - float(np.median(np.log(time_left.median[new]))))
    time_left.median[new] *= np.exp(longer)
    time_left.off[new] = np.maximum(time_left.off[new], (high - low) / 1.35)


def _when_declared(jobs: Jobs) -> tuple[float, float]:
    """What declared times are to be multiplied with, and how far off they are then, by the jobs that have finished.

    The factor makes sums right, which a queue depends on: where half of the jobs take twice as long as declared and the
    others half as long, all together take longer than declared.
    """
    ended = (jobs.state == int(State.FINISHED)) & (jobs.attained > 0.0) & (jobs.declared > 0.0)
    took, told = jobs.attained[ended], jobs.declared[ended]
    count, usual = len(took), OFF[Basis.DECLARED]
    if not count:
        return 1.0, usual
    square = (WEIGHT * usual**2 + float(np.square(np.log(took / told)).sum())) / (WEIGHT + count)
    known = count / (count + WEIGHT)
    return float(np.exp(known * (np.log(took.sum() / told.sum()) - square / 2.0))), float(np.sqrt(square))


def _as_those_before(lengths: FloatArray, trained: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Median seconds left and how far off, of jobs of which the book believes nothing.

    They take as long as those that have finished, however few: 4.5 s where four took that. One that has trained longer
    than these needs as long again.
    """
    if not len(lengths):
        return np.maximum(trained, UNKNOWN_SECONDS), np.full(len(trained), ANY_LENGTH)
    usual, off = float(np.exp(np.median(lengths))), float(np.hypot(lengths.std(), ANY_LENGTH / (1 + len(lengths))))
    left = np.where(trained < usual, usual - trained, trained)
    return left, np.where(trained < usual, off, np.maximum(off, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Jobs that came so far, and how often one came."""

    jobs: tuple[Job, ...] = ()
    seconds: FloatArray = field(default_factory=lambda: np.zeros(0))
    """What each trains in all, as far as known."""
    gaps: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Seconds from the one before to each of them; all together they are the time since the first jobs came."""

    @property
    def arrivals(self) -> int:
        return len(self.jobs)

    @classmethod
    def of(cls, snapshot: Snapshot, time_left: TimeLeft) -> Seen:
        """Jobs that came together at the beginning say nothing about further ones."""
        jobs, count = snapshot.jobs, snapshot.jobs.count
        if not count:
            return cls()
        submit, over = jobs.submit[:count], jobs.over()
        first = float(submit.min())
        later = (submit > first + 1.0) & (submit <= snapshot.now)
        if later.sum() < FEWEST_ARRIVALS:
            return cls()
        seconds = jobs.trained_seconds(snapshot.now) + np.where(over, 0.0, time_left.median)
        chosen = np.flatnonzero(later & (~over | (jobs.state == int(State.FINISHED))))
        chosen = chosen[np.argsort(submit[chosen], kind="stable")]
        rows = chosen.tolist()
        came = np.append(submit[chosen], snapshot.now)
        gaps = np.diff(came, prepend=first)
        gaps[0] += gaps[-1]  # what has passed since the last one
        return cls(jobs=tuple(jobs.job(row) for row in rows), seconds=seconds[chosen], gaps=gaps[:-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Present:
    snapshot: Snapshot
    """Of a board of its own, without the jobs that are over."""
    time_left: TimeLeft
    speeds: Mapping[tuple[JobId, Counts], float] = field(default_factory=dict)
    """Believed ones, of jobs that may have several sizes, relative to the requested size."""
    on_types: Mapping[JobId, Mapping[str, float]] = field(default_factory=dict)
    """Believed speeds by type of accelerators, relative to that at which its time left is told; empty where they are
    not told apart."""
    seen: Seen = Seen()
    to_come: tuple[Job, ...] = ()
    """Jobs that are known already and come later."""
    costs: Costs = Costs()

    @classmethod
    def of(cls, snapshot: Snapshot, to_come: Sequence[Job] = (), costs: Costs | None = None) -> Present:
        """From a snapshot with estimates. Ask after the cycle's log line was written: it keeps what was asked."""
        time_left = TimeLeft.of(snapshot)
        alive = ~snapshot.jobs.over()
        costs = costs or Costs()
        soon = Snapshot.of({**snapshot.__dict__, "flights": _flights(snapshot, costs)})
        own = from_snapshot(soon, left=time_left.median).board.snapshot(snapshot.now)
        return cls(
            snapshot=own.standing_as(snapshot.standing), time_left=time_left.rows(alive),
            speeds=_speeds(snapshot, alive), on_types=_on_types(snapshot, alive), seen=Seen.of(snapshot, time_left),
            to_come=tuple(sorted(to_come, key=lambda job: job.submit)), costs=costs,
        )  # fmt: skip

    @property
    def jobs(self) -> Jobs:
        return self.snapshot.jobs

    def speed(self, job: Job, counts: Counts) -> float:
        """As the book believes it; as jobs commonly scale where it was not asked."""
        known = self.speeds.get((job.id, counts))
        return plain_speed(job, counts) if known is None else known

    def speed_on(self, job: Job) -> Mapping[str, float]:
        """By type of accelerators. A job that is not here yet gains from types as those here do in the mean."""
        return self.on_types.get(job.id, self._usual_on)

    @cached_property
    def _usual_on(self) -> Mapping[str, float]:
        names = self.snapshot.nodes.types.names
        logs = np.array([[math.log(on[kind] / max(on.values())) for kind in names] for on in self.on_types.values()])
        return dict(zip(names, np.exp(logs.mean(axis=0)).tolist(), strict=True)) if len(logs) else {}


def _flights(snapshot: Snapshot, costs: Costs) -> dict[int, Flight]:
    """What is under way, with when it usually ends in place of when it is given up."""
    found = {}
    for row, flight in snapshot.flights.items():
        usual = costs.save + costs.stop if flight.towards is None else costs.start
        found[row] = flight._replace(until=max(snapshot.now, min(flight.until, flight.since + usual)))
    return found


def _on_types(snapshot: Snapshot, alive: BoolArray) -> dict[JobId, Mapping[str, float]]:
    estimates, names = snapshot.estimates, snapshot.nodes.types.names
    if not estimates.known or not estimates.tells_types or len(names) < 2:
        return {}
    rows = np.flatnonzero(alive).tolist()
    return {
        snapshot.jobs.job(row).id: {kind: 1.0 / took for kind, took in zip(names, told.seconds, strict=True)}
        for row, told in zip(rows, estimates.on_types(rows), strict=True)
    }


def _speeds(snapshot: Snapshot, alive: BoolArray) -> dict[tuple[JobId, Counts], float]:
    found: dict[tuple[JobId, Counts], float] = {}
    if not snapshot.estimates.known or not snapshot.jobs.any_elastic:
        return found
    for row in np.flatnonzero(alive).tolist():
        job = snapshot.jobs.job(row)
        elastic = [number for number, role in enumerate(job.roles) if role.min != role.max]
        if len(elastic) != 1:
            continue
        number, role = elastic[0], job.roles[elastic[0]]
        asked = tuple(one.replicas for one in job.roles)
        for size in range(role.min, min(role.max, role.min + MOST_SIZES) + 1):
            counts = (*asked[:number], size, *asked[number + 1 :])
            found[job.id, counts] = snapshot.estimates.speed(row, counts)
    return found
