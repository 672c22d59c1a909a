"""ElasticFlow: the smallest share that still meets each deadline, admitted in order of deadlines; the rest grows jobs.

1. Jobs with deadlines are planned, the earliest first. Each gets the smallest size with which it is done in time beside
   the earlier ones (its minimum satisfactory share). A job for which no size will do is hopeless.
2. Jobs whose turn is now start or scale to their share. Where there is no room, running jobs shrink to theirs. Then
   hopeless jobs and jobs without a deadline are stopped.
3. What is left goes to jobs without a deadline, then to hopeless ones (shortest first), and then to the job that gains
   most from being larger.

One number stands for all resources: the largest share of any kind. That never promises more than there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.job import Can
from headway.core.node import FloatArray
from headway.core.placement import Placement
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.add_remove import may_scale, scale_towards
from headway.policies.placing.pack import place_any_size
from headway.policies.placing.spread import place_evenly
from headway.policies.ranges import Seconds
from headway.policies.steps.cool_down import rested
from headway.policies.value.sizes import ladder, work_left


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticFlow:
    cool_down: Seconds = 60.0
    """Seconds between two changes of a running job."""
    overhead: Seconds = 0.0
    """Seconds that a start costs; a waiting job must make its deadline with them."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        rows = [*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()]
        if not rows:
            return draft.plan()
        options = _options(snapshot, rows)
        admitted, sizes, later = self._admit(snapshot, rows, options)
        order = [*admitted, *_best_effort(snapshot, rows, set(admitted), options)]
        unplaced = _start_all(draft, order, sizes)
        if unplaced:
            self._make_room(draft, unplaced[0], order, sizes)
        elif not later:
            self._grow(draft, order, options)
        return draft.plan()

    def _admit(
        self, snapshot: Snapshot, rows: list[int], options: dict[int, Options]
    ) -> tuple[list[int], dict[int, Counts], bool]:
        """Jobs that will meet their deadline in order of it, the size of each now, and whether one begins later."""
        deadline = snapshot.jobs.deadline
        ahead = Ahead(snapshot.now)
        admitted, sizes, later = [], {}, False
        for row in sorted((row for row in rows if math.isfinite(deadline[row])), key=lambda row: (deadline[row], row)):
            waits = self.overhead if row not in snapshot.placements else 0.0
            size = ahead.admit(options[row], float(deadline[row]) - waits)
            if size is None:
                continue
            admitted.append(row)
            if size >= 0:
                sizes[row] = options[row].counts[size]
            later = later or size < 0
        return admitted, sizes, later

    def _make_room(self, draft: Draft, row: int, order: list[int], sizes: dict[int, Counts]) -> None:
        """For one admitted job: shrinks jobs above their share, then stops jobs that have none. All or nothing."""
        snapshot = draft.snapshot
        if row not in sizes or _soon(draft, row, sizes[row]) is not None:
            return
        running = [other for other in reversed(order) if other in snapshot.placements]
        givers = [other for other in running if rested(draft, other, self.cool_down)]
        trial = _room_by(draft, row, givers, sizes)
        if trial is not None:
            draft.adopt(trial)

    def _grow(self, draft: Draft, order: list[int], options: dict[int, Options]) -> None:
        """The running job that gains most per share becomes one step larger; the others at a later event."""
        snapshot = draft.snapshot
        best: tuple[float, int, Counts] | None = None
        for row in order:
            if row not in snapshot.placements or not may_scale(snapshot, row):
                continue
            step = options[row].next_step(snapshot.placements[row].counts)
            if step is None or not rested(draft, row, self.cool_down):
                continue
            if best is None or step[0] > best[0]:
                trial = draft.copy()
                best = (step[0], row, step[1]) if scale_towards(trial, row, step[1], up=True) else best
        if best is not None:
            scale_towards(draft, best[1], best[2], up=True)
            draft.wake(snapshot.now + 1.0)


@dataclass(frozen=True, slots=True)
class Options:
    """What one job may have: sizes ascending, the share of the cluster and the speed of each, and the work left."""

    counts: list[Counts]
    shares: FloatArray
    speeds: FloatArray
    work: float

    def next_step(self, now: Counts) -> tuple[float, Counts] | None:
        """Seconds saved per share by the next larger size, and that size; None where none saves any."""
        larger = [i for i, counts in enumerate(self.counts) if sum(counts) > sum(now) and _covers(counts, now)]
        here = next((i for i, counts in enumerate(self.counts) if counts == now), None)
        if not larger or here is None or self.speeds[larger[0]] <= self.speeds[here] or self.work <= 0:
            return None
        saved = self.work / max(self.speeds[here], 1e-9) - self.work / self.speeds[larger[0]]
        return float(saved / max(self.shares[larger[0]] - self.shares[here], 1e-9)), self.counts[larger[0]]


class Ahead:
    """The time ahead in pieces: what share of the cluster is not yet promised in each."""

    def __init__(self, now: float) -> None:
        self.starts = [now]
        self.left = [1.0]

    def admit(self, job: Options, deadline: float) -> int | None:
        """Promises the smallest size that is done in time. Returns the size to begin with (-1: it begins later), or
        None.
        """
        for size in range(len(job.counts)):
            used, end = self._course(job, size, deadline)
            if end <= deadline:
                self._promise(job, used, end)
                return int(used[0])
        return None

    def _course(self, job: Options, largest: int, deadline: float) -> tuple[FloatArray, float]:
        """Per piece the size it would run at (-1: none), never above the largest; and when it would be done."""
        starts = np.array(self.starts)
        ends = np.append(starts[1:], np.inf)
        sizes = np.minimum(np.searchsorted(job.shares, np.array(self.left) + 1e-9, side="right") - 1, largest)
        speeds = np.where(sizes >= 0, job.speeds[np.maximum(sizes, 0)], 0.0)
        seconds = np.where(np.isinf(ends), 0.0, ends - starts)
        done = np.concatenate([[0.0], np.cumsum(speeds * seconds)[:-1]])
        with np.errstate(divide="ignore", invalid="ignore"):
            finish = np.where(speeds > 0, starts + np.maximum(job.work - done, 0.0) / speeds, np.inf)
        within = (finish <= ends) & (done <= job.work + 1e-9)
        end = float(finish[within].min(initial=np.inf))
        return sizes.astype(np.float64), end if end <= deadline else math.inf

    def _promise(self, job: Options, used: FloatArray, end: float) -> None:
        if end not in self.starts and end > self.starts[0]:
            place = int(np.searchsorted(self.starts, end))
            self.starts.insert(place, end)
            self.left.insert(place, self.left[place - 1])
        for piece, start in enumerate(self.starts):
            if start < end and piece < len(used) and used[piece] >= 0:
                self.left[piece] -= float(job.shares[int(used[piece])])


def _options(snapshot: Snapshot, rows: list[int]) -> dict[int, Options]:
    work, whole = work_left(snapshot, rows), snapshot.nodes.total()
    made = {}
    for row in rows:
        counts = ladder(snapshot, row)
        speeds = np.array([snapshot.estimates.speed(row, size) for size in counts])
        made[row] = Options(counts, _shares(snapshot, row, counts, whole), speeds, work[row])
    return made


def _shares(snapshot: Snapshot, row: int, counts: list[Counts], whole: FloatArray) -> FloatArray:
    """The dominant share of each size."""
    shape, placement = snapshot.jobs.shape_at(row), snapshot.placements.get(row)
    vectors = np.array([
        role.vector if placement is None else placement.vector(shape, number) for number, role in enumerate(shape.roles)
    ])  # fmt: skip
    demands = np.array(counts, np.float64) @ vectors
    missing = np.where(demands > 0, np.inf, 0.0)
    shares: FloatArray = np.divide(demands, whole, out=missing, where=whole > 0).max(axis=1, initial=0.0)
    return shares


def _best_effort(snapshot: Snapshot, rows: list[int], admitted: set[int], options: dict[int, Options]) -> list[int]:
    """Jobs without a deadline by arrival, then hopeless ones by their time left."""
    free = [row for row in rows if not math.isfinite(snapshot.jobs.deadline[row])]
    hopeless = [row for row in rows if row not in admitted and math.isfinite(snapshot.jobs.deadline[row])]
    return [*sorted(free), *sorted(hopeless, key=lambda row: (options[row].work, row))]


def _start_all(draft: Draft, order: list[int], sizes: dict[int, Counts]) -> list[int]:
    """Starts waiting jobs, first those whose turn is now. Returns those of them that found no room.

    While there are any, no other job takes the room that they wait for.
    """
    waiting = [row for row in order if row not in draft.snapshot.placements]
    unplaced = [row for row in waiting if row in sizes and not _start(draft, row, sizes[row])]
    if not unplaced:
        for row in waiting:
            if row not in sizes:
                _start(draft, row, None)
    return unplaced


def _start(draft: Draft, row: int, counts: Counts | None) -> bool:
    placement = _placement(draft, row, counts)
    if placement is not None:
        draft.start(row, placement)
    return placement is not None


def _placement(draft: Draft, row: int, counts: Counts | None) -> Placement | None:
    snapshot = draft.snapshot
    if counts is None:
        return place_any_size(snapshot, draft.free, row)
    return place_evenly(snapshot, draft.free, snapshot.jobs.shape_at(row), counts)


def _soon(draft: Draft, row: int, counts: Counts) -> Placement | None:
    """Where the job will fit when what is coming is free."""
    snapshot = draft.snapshot
    return place_evenly(snapshot, draft.soon(), snapshot.jobs.shape_at(row), counts)


def _room_by(draft: Draft, row: int, givers: list[int], sizes: dict[int, Counts]) -> Draft | None:
    """The draft with room made by these, as few as will do; None where all together are not enough."""
    snapshot, trial = draft.snapshot, draft.copy()
    for count, giver in enumerate(givers, 1):
        if giver not in sizes and int(snapshot.jobs.can[giver]) & Can.STOP:
            trial.stop(giver)
        elif giver in sizes and may_scale(snapshot, giver):
            scale_towards(trial, giver, sizes[giver], up=False)
        placement = _soon(trial, row, sizes[row]) if trial.decided(giver) is not None else None
        if placement is not None:
            there = placement.used_nodes()
            needed = [other for other in givers[:count] if snapshot.placements[other].used_nodes() & there]
            return trial if len(needed) == count else (_room_by(draft, row, needed, sizes) or trial)
    return None


def _covers(larger: Counts, smaller: Counts) -> bool:
    return all(a >= b for a, b in zip(larger, smaller, strict=True))
