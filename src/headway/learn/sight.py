"""What an agent sees: the jobs as a set of rows with a mask, and the cluster as a vector.

Beliefs only, never the truth. Times are logarithms relative to the present median of the believed times left, so that
an agent trained on short jobs sees long ones alike. docs/learn.md explains each feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from headway.core.node import BoolArray, FloatArray
from headway.core.placement import Shape
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.value.times import Rows

Observation = dict[str, Any]
"""Arrays by the names of `observation_space`."""
Float32 = npt.NDArray[np.float32]

JOB_FEATURES = (
    "left", "age", "known", "spread", "fits", "done", "urgency", "size", "share", "priority", "least", "most",
)  # fmt: skip
"""The last four never change."""
CLUSTER_FEATURES = (
    "free", "idle_nodes", "waiting", "running", "not_shown", "demand", "demand_seconds", "next_end", "mean_end",
    "known", "spread", "elastic", "finished",
)  # fmt: skip
FARTHEST = 64.0
"""Bound of all logarithms to base 2: no two times that a float tells apart are that far from each other."""
LARGEST_SPREAD = 2.0
"""As far as spreads are told apart; also the spread of what is unknown."""
SHORTEST = 1e-3
"""Seconds: shorter times count as this long in logarithms."""
_RUNNING = int(State.RUNNING)


def observation_space(slots: int, actions: int) -> spaces.Dict:
    """`jobs` (slots, features), `job_mask` (slots,), `cluster` (features,), `action_mask` (actions,)."""
    return spaces.Dict({
        "jobs": spaces.Box(-FARTHEST, FARTHEST, (slots, len(JOB_FEATURES)), np.float32),
        "job_mask": spaces.Box(0, 1, (slots,), np.int8),
        "cluster": spaces.Box(-FARTHEST, FARTHEST, (len(CLUSTER_FEATURES),), np.float32),
        "action_mask": spaces.Box(0, 1, (actions,), np.int8),
    })  # fmt: skip


def nothing_to_see(slots: int, actions: int) -> Observation:
    """After the last cycle."""
    return {
        "jobs": np.zeros((slots, len(JOB_FEATURES)), np.float32),
        "job_mask": np.zeros(slots, np.int8),
        "cluster": np.zeros(len(CLUSTER_FEATURES), np.float32),
        "action_mask": np.zeros(actions, np.int8),
    }


class Register:
    """What never changes about a job, by arrival number: written once, when the job is first seen."""

    def __init__(self) -> None:
        self.fixed: Float32 = np.zeros((256, 4), np.float32)
        """Share of the cluster, priority, min and max size."""
        self.submit: FloatArray = np.zeros(256)
        self.any_deadline = False
        self._known = -1

    def follow(self, snapshot: Snapshot) -> None:
        """Writes down the jobs that have come since."""
        jobs = snapshot.jobs
        newest = jobs.serial_of(jobs.count - 1) if jobs.count else -1
        while len(self.submit) <= newest:
            self.fixed = np.concatenate((self.fixed, np.zeros_like(self.fixed)))
            self.submit = np.concatenate((self.submit, np.zeros_like(self.submit)))
        row = jobs.count - 1
        while row >= 0 and (serial := jobs.serial_of(row)) > self._known:
            job, shape = jobs.job(row), jobs.shape_at(row)
            share = min(float(jobs.shapes.share[jobs.value(row, "shape")]), 1.0)
            self.fixed[serial] = (share, job.priority / (1.0 + abs(job.priority)), *_bounds(shape))
            self.submit[serial] = job.submit
            self.any_deadline |= job.deadline is not None
            row -= 1
        self._known = newest


@dataclass(frozen=True, slots=True, eq=False)
class LookedUp:
    """Some jobs, and what is looked up of them. Columns are aligned with `rows`."""

    rows: Rows
    serial: npt.NDArray[np.int64]
    left: FloatArray
    all_known: bool
    """Whether there is a belief about each of them."""
    fixed: Float32

    @classmethod
    def of(cls, left: FloatArray, snapshot: Snapshot, register: Register, rows: Rows) -> LookedUp:
        serial, here = snapshot.jobs.serial[rows], left[rows]
        return cls(rows, serial, here, _all_known(here), register.fixed[serial])


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What one cycle's observations share. Made once per cycle, before the agent is asked first."""

    snapshot: Snapshot
    register: Register
    left: FloatArray
    """By row: believed seconds left; NaN where nothing is known."""
    spread: FloatArray | None
    """By row; None where the book tells none."""
    median: float
    """The present median of the believed times left; of the ages where nothing is known."""
    ends: tuple[float, float]
    """Of the running jobs: the believed seconds until the first ends, and their mean; infinite if there are none."""
    queue: LookedUp
    """All jobs that wait."""

    @classmethod
    def of(cls, snapshot: Snapshot, register: Register) -> Sight:
        register.follow(snapshot)
        jobs, now, estimates = snapshot.jobs, snapshot.now, snapshot.estimates
        waiting, running = jobs.waiting(), jobs.running()
        left = estimates.left(now) if estimates.known else np.full(jobs.count, np.nan)
        spread = estimates.beliefs.spread if estimates.known else None
        ends, queue = _known(left[running]), LookedUp.of(left, snapshot, register, waiting)
        alive = np.concatenate((queue.left if queue.all_known else _known(queue.left), ends))
        if not len(alive):
            alive = now - jobs.submit[np.concatenate((waiting, running))]
        median = max(_median(alive), SHORTEST) if len(alive) else 1.0
        found = (float(np.minimum.reduce(ends)), float(np.add.reduce(ends)) / len(ends)) if len(ends) else _NO_ENDS
        return cls(snapshot, register, left, spread, median, found, queue)

    def group(self, rows: Rows) -> LookedUp:
        """What is looked up of these jobs; of all that wait only once."""
        return self.queue if rows is self.queue.rows else LookedUp.of(self.left, self.snapshot, self.register, rows)

    def shortest_first(self, rows: Rows) -> FloatArray:
        """Believed seconds left; unknown ones last."""
        left: FloatArray = self.left[rows]
        return np.where(np.isnan(left), np.inf, left)

    def times(self, seconds: FloatArray) -> FloatArray:
        """Logarithms to base 2 relative to the median; NaN stays NaN."""
        times: FloatArray = np.maximum(seconds, SHORTEST)
        times /= self.median
        return np.log2(times, out=times)

    def time(self, seconds: float) -> float:
        return min(math.log2(max(seconds, SHORTEST) / self.median), FARTHEST) if math.isfinite(seconds) else 0.0


_NO_ENDS = (math.inf, math.inf)


def look(sight: Sight, rows: Rows, fits: BoolArray, slots: int) -> tuple[Float32, npt.NDArray[np.int8]]:
    """The rows of the set, and its mask. Features are in the order of `JOB_FEATURES`."""
    count = len(rows)
    table, mask = np.zeros((slots, len(JOB_FEATURES)), np.float32), np.zeros(slots, np.int8)
    if not count:
        return table, mask
    mask[:count] = 1
    group = sight.group(rows)
    seen = table[:count]
    seen[:, 8:] = group.fixed
    seen[:, 0] = sight.times(group.left)
    seen[:, 1] = sight.times(sight.snapshot.now - sight.register.submit[group.serial])
    seen[:, 2] = 1.0
    seen[:, 3] = LARGEST_SPREAD if sight.spread is None else np.fmin(sight.spread[rows], LARGEST_SPREAD)
    seen[:, 4] = fits
    _look_closer(sight, rows, seen)
    if not group.all_known:
        unknown = np.isnan(group.left)
        seen[unknown, 0] = seen[unknown, 2] = seen[unknown, 5] = 0.0
        np.minimum(table, FARTHEST, out=table)
    return table, mask


def _look_closer(sight: Sight, rows: Rows, seen: Float32) -> None:
    """What most waiting jobs do not have: training behind them, a deadline."""
    snapshot, jobs = sight.snapshot, sight.snapshot.jobs
    trained = jobs.attained[rows]
    if rows.item(-1) in snapshot.placements:  # jobs that wait come before those that run
        state = jobs.state[rows]
        trained = trained + np.where(state == _RUNNING, snapshot.now - jobs.since[rows], 0.0)
        seen[:, 7] = jobs.size[rows] / jobs.width[rows]
    if trained.any():
        seen[:, 5] = trained / np.maximum(trained + sight.left[rows], SHORTEST)
    if sight.register.any_deadline:
        seen[:, 6] = _urgency(sight.left[rows], jobs.deadline[rows] - snapshot.now)


def _bounds(shape: Shape) -> tuple[float, float]:
    """Min and max size relative to the asked-for one, as logarithms."""
    asked = max(1, sum(shape.counts))
    most = sum(role.most for role in shape.roles)
    return math.log2(max(1, sum(shape.least)) / asked), math.log2(max(1, most) / asked)


def _urgency(left: FloatArray, until: FloatArray) -> FloatArray:
    """Time left over time left and slack: 1 where a deadline is past or missed, 0 where there is none."""
    left = np.where(np.isnan(left), 0.0, left)
    urgency: FloatArray = np.where(until <= left, 1.0, left / np.maximum(until, SHORTEST))
    return np.where(np.isfinite(until), urgency, 0.0)


def survey(sight: Sight, free: npt.NDArray[np.int32], waiting: Rows, shown: int, finished: int) -> Float32:
    """The cluster as a vector, in the order of `CLUSTER_FEATURES`."""
    snapshot, jobs = sight.snapshot, sight.snapshot.jobs
    kind = _main_kind(snapshot)
    free_here, whole = free[kind], snapshot.nodes.capacity[kind]
    group = sight.group(waiting)
    left, share = group.left, group.fixed[:, 0]
    known = len(left) if group.all_known else len(_known(left))
    work = float(share @ (left if group.all_known else np.where(np.isfinite(left), left, sight.median)))
    return np.array([
        float(np.add.reduce(free_here)) / max(1, int(np.add.reduce(whole))),
        np.count_nonzero(free_here == whole) / len(whole),
        math.log2(1 + len(waiting)), math.log2(1 + len(snapshot.placements)), math.log2(1 + len(waiting) - shown),
        math.log2(1.0 + float(np.add.reduce(share))), sight.time(work) if work > 0 else 0.0,
        sight.time(sight.ends[0]), sight.time(sight.ends[1]),
        known / len(left) if len(left) else 0.0, _mean_spread(sight, waiting),
        _share_elastic(snapshot, waiting) if jobs.any_elastic else 0.0,
        math.log2(1 + finished),
    ], np.float32)  # fmt: skip


def _mean_spread(sight: Sight, rows: Rows) -> float:
    spread = _NOTHING if sight.spread is None else _known(sight.spread[rows])
    return min(float(np.add.reduce(spread)) / len(spread), LARGEST_SPREAD) if len(spread) else LARGEST_SPREAD


def _share_elastic(snapshot: Snapshot, rows: Rows) -> float:
    jobs = snapshot.jobs
    elastic = np.array([shape.elastic for shape in jobs.shapes])
    return float(elastic[jobs.shape[rows]].sum()) / len(rows) if len(rows) else 0.0


def _main_kind(snapshot: Snapshot) -> int:
    """The kind of resource that jobs mostly ask for: the last one of the first shape."""
    shapes = snapshot.jobs.shapes
    asks = shapes[0].roles[-1].asks if len(shapes) else ()
    return asks[-1][0] if asks else 0


def _all_known(values: FloatArray) -> bool:
    """Whether all are finite. One sum tells, which is faster than looking at each."""
    return math.isfinite(np.add.reduce(values))


def _known(values: FloatArray) -> FloatArray:
    """Those that are finite."""
    return values if _all_known(values) else values[np.isfinite(values)]


_NOTHING: FloatArray = np.zeros(0)


def _median(values: FloatArray) -> float:
    """The lower median."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])
