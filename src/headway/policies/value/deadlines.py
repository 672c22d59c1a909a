"""Deadlines: at which sizes a job would be in time, and how much of the time ahead is promised already.

Example: a job needs an hour at 2 replicas and half an hour at 4; its deadline is in 40 minutes. Only 4 replicas are in
time. If other jobs hold half of the cluster until then, the calendar says whether 4 replicas are left.

In the calendar one number stands for all resources: the largest share of any kind. So it never promises more than there
is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from headway.core.estimates import Counts
from headway.core.jobs.shapes import dominant_share
from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.sizes import bounds, demand, held, ladder
from headway.policies.value.supposed import supposed

FINE = 12
"""Up to this number, all sizes of one role are tried; beyond it, doublings and the sizes half-way between them."""


@dataclass(frozen=True, slots=True, eq=False)
class DeadlineNeed:
    """One job's sizes, the smallest first, each faster than the one before it; and what is left of the job."""

    row: int
    counts: list[Counts]
    shares: FloatArray
    """Share of the cluster by size, the largest of any kind."""
    speeds: FloatArray
    """By size, relative to the asked-for size."""
    work: float
    """Seconds left at the asked-for size; NaN where unknown."""
    spread: float
    """Standard deviation of the work as a share of it; 0 where unknown."""
    delay: float
    """Seconds before the job trains, where it must first be started."""
    deadline: float
    """Infinite where the job has none."""
    known: bool = True
    """Whether the work rests on more than the deadline and vague similar jobs."""

    def seconds(self, size: int) -> float:
        """Seconds until the job is done at this size."""
        return self.delay + self.work / max(float(self.speeds[size]), 1e-9)

    def smallest(self, seconds: float) -> int | None:
        """The smallest size that is done within these seconds, or None."""
        sizes = np.flatnonzero(self.delay + self.work / np.maximum(self.speeds, 1e-9) <= seconds)
        return int(sizes[0]) if len(sizes) else None

    def chance(self, seconds: float) -> float:
        """The chance that the job is done within these seconds with the whole cluster to itself."""
        takes = self.seconds(len(self.counts) - 1)
        if self.spread <= 0 or self.work <= 0:
            return 1.0 if takes <= seconds else 0.0
        deviations = (seconds - takes) / (self.spread * max(takes - self.delay, 1e-9))
        return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))

    def area(self, seconds: float) -> float:
        """Share of the cluster times seconds, at the smallest size that is in time or, where none is, at the
        largest.
        """
        size = self.smallest(seconds)
        if size is None:
            size = len(self.counts) - 1
        return float(self.shares[size]) * self.seconds(size)

    def size_of(self, counts: Counts) -> int:
        """The largest of its sizes that is not above these counts."""
        below = [number for number, size in enumerate(self.counts) if sum(size) <= sum(counts)]
        return below[-1] if below else 0


def needs(snapshot: Snapshot, rows: list[int], restart: float) -> dict[int, DeadlineNeed]:
    """By row. Starting a job costs `restart` seconds."""
    whole, speed, (left, spread, known) = snapshot.nodes.total(), snapshot.estimates.speed, supposed(snapshot)
    made = {}
    for row in rows:
        now = held(snapshot, row)
        counts, speeds = _worthwhile(snapshot, row)
        shares = np.array([dominant_share(demand(snapshot, row, size), whole) for size in counts])
        fitting = max(1, int(np.searchsorted(shares, 1.0 + 1e-9, side="right")))
        counts, speeds, shares = counts[:fitting], speeds[:fitting], shares[:fitting]
        work = float(left[row]) * (1.0 if now is None else speed(row, now))
        made[row] = DeadlineNeed(
            row, counts, shares, np.array(speeds), work, float(spread[row]),
            restart if now is None else 0.0, float(snapshot.jobs.deadline[row]), bool(known[row]),
        )  # fmt: skip
    return made


def _worthwhile(snapshot: Snapshot, row: int) -> tuple[list[Counts], list[float]]:
    """Sizes that are faster than every smaller one, and their speeds."""
    counts, speeds = list[Counts](), list[float]()
    for size in _sizes(snapshot, row):
        speed = snapshot.estimates.speed(row, size)
        if not counts or speed > speeds[-1] * (1.0 + 1e-6):
            counts.append(size)
            speeds.append(speed)
    return counts, speeds


def _sizes(snapshot: Snapshot, row: int) -> list[Counts]:
    least, most = bounds(snapshot, row)
    elastic = [role for role, (low, high) in enumerate(zip(least, most, strict=True)) if high > low]
    if not elastic:
        return [least]
    if len(elastic) > 1:
        return ladder(snapshot, row)
    role, low, high = elastic[0], least[elastic[0]], most[elastic[0]]
    if high - low < FINE:
        amounts = list(range(low, high + 1))
    else:
        asked = snapshot.jobs.shape_at(row).counts[role]
        powers = [2**power for power in range(high.bit_length())]
        wanted = {low, high, asked, *powers, *(3 * power for power in powers)}
        amounts = sorted(amount for amount in wanted if low <= amount <= high)
    return [(*least[:role], amount, *least[role + 1 :]) for amount in amounts]


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """How a job would run: the number of its size in each piece of time (-1: it waits), and when it would be done."""

    sizes: FloatArray
    end: float

    @property
    def now(self) -> int:
        return int(self.sizes[0])


class Calendar:
    __slots__ = ("left", "starts")

    def __init__(self, now: float, room: float = 1.0) -> None:
        self.starts = [now]
        self.left = [room]

    def take(self, share: float, until: float) -> None:
        """A job holds this share until then, whatever is planned."""
        self._cut(until)
        for piece, start in enumerate(self.starts):
            if start < until:
                self.left[piece] -= share

    def promise(self, need: DeadlineNeed, deadline: float, reserve: float = 0.0) -> PlannedRun | None:
        """The smallest size that is done by the deadline, beside what is promised already. It is promised then; or
        None. `reserve`: by how many deviations the work may be more than it is taken to be.
        """
        if reserve and need.spread > 0.0:
            need = replace(need, work=need.work * math.exp(reserve * need.spread))
        first = need.smallest(deadline - self.starts[0])
        if first is None:
            return None
        for size in range(first, len(need.counts)):
            run = self.planned(need, size)
            if run.end <= deadline:
                self._keep(need, run)
                return run
        return None

    def planned(self, need: DeadlineNeed, largest: int) -> PlannedRun:
        """The run that is done soonest, never above this size."""
        starts, left = np.array(self.starts), np.array(self.left)
        ends = np.append(starts[1:], np.inf)
        sizes = np.minimum(np.searchsorted(need.shares, left + 1e-9, side="right") - 1, largest)
        speeds = np.where(sizes >= 0, need.speeds[np.maximum(sizes, 0)], 0.0)
        seconds = np.where(np.isinf(ends), 0.0, ends - starts)
        work = need.work + need.delay * float(need.speeds[largest])
        done = np.concatenate([[0.0], np.cumsum(speeds * seconds)[:-1]])
        with np.errstate(divide="ignore", invalid="ignore"):
            finish = np.where(speeds > 0, starts + np.maximum(work - done, 0.0) / speeds, np.inf)
        within = finish <= ends
        return PlannedRun(sizes, float(finish[within].min(initial=np.inf)))

    def _keep(self, need: DeadlineNeed, run: PlannedRun) -> None:
        self._cut(run.end)
        for piece, start in enumerate(self.starts):
            if start >= run.end:
                break
            if run.sizes[piece] >= 0:
                self.left[piece] -= float(need.shares[int(run.sizes[piece])])

    def _cut(self, at: float) -> None:
        """Begins a new piece of time here."""
        if not self.starts[0] < at < math.inf or at in self.starts:
            return
        place = int(np.searchsorted(self.starts, at))
        self.starts.insert(place, at)
        self.left.insert(place, self.left[place - 1])


def deviations(confidence: float) -> float:
    """By how many deviations more work must be allowed for, so that it is enough with this confidence."""
    return NormalDist().inv_cdf(min(max(confidence, 0.5), 0.999))


def hopeful(jobs: Iterable[DeadlineNeed], now: float, hopeless: float) -> list[DeadlineNeed]:
    """Jobs with a deadline and an estimate that have at least this chance alone; the earliest deadline first."""
    chosen = [need for need in jobs if math.isfinite(need.deadline) and not math.isnan(need.work)
              and need.chance(need.deadline - now) >= hopeless]  # fmt: skip
    return sorted(chosen, key=lambda need: (need.deadline, need.row))


def most_in_time(jobs: Iterable[DeadlineNeed], now: float, room: float) -> set[int]:
    """Rows of a largest set of jobs that one divisible machine could serve in time, after Moore and Hodgson.

    Jobs are taken in order of deadlines. Whenever the work up to a deadline does not fit before it, the largest job is
    left out.
    """
    total, chosen = 0.0, list[tuple[float, int]]()
    for need in sorted(jobs, key=lambda need: (need.deadline, need.row)):
        area = need.area(need.deadline - now)
        heapq.heappush(chosen, (-area, need.row))
        total += area
        while total > room * (need.deadline - now) and chosen:
            total += heapq.heappop(chosen)[0]
    return {row for _, row in chosen}
