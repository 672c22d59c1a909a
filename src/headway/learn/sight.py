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
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.value.times import Rows

Observation = dict[str, Any]
"""Arrays by the names of `observation_space`."""
Float32 = npt.NDArray[np.float32]

JOB_FEATURES = (
    "left", "known", "spread", "age", "share", "fits", "priority", "done", "urgency", "size", "least", "most",
)  # fmt: skip
CLUSTER_FEATURES = (
    "free", "idle_nodes", "waiting", "running", "not_shown", "demand", "demand_seconds", "next_end", "median_end",
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


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What one cycle's observations share. Made once per cycle, before the agent is asked first."""

    snapshot: Snapshot
    left: FloatArray
    """By row: believed seconds left; NaN where nothing is known."""
    spread: FloatArray | None
    """By row; None where the book tells none."""
    median: float
    """The present median of the believed times left; of the ages where nothing is known."""
    ends: tuple[float, float]
    """Of the running jobs: the believed seconds until the first ends, and their median; infinite if there are none."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Sight:
        jobs, now, estimates = snapshot.jobs, snapshot.now, snapshot.estimates
        waiting, running = jobs.waiting(), jobs.running()
        left = estimates.left(now) if estimates.known else np.full(jobs.count, np.nan)
        spread = estimates.beliefs.spread if estimates.known else None
        ends = _known(left[running])
        alive = np.concatenate((_known(left[waiting]), ends))
        if not len(alive):
            alive = now - jobs.submit[np.concatenate((waiting, running))]
        median = max(_median(alive), SHORTEST) if len(alive) else 1.0
        return cls(snapshot, left, spread, median, (float(ends.min()), _median(ends)) if len(ends) else _NO_ENDS)

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


def look(view: Sight, rows: Rows, fits: BoolArray, slots: int) -> tuple[Float32, npt.NDArray[np.int8]]:
    """The rows of the set, and its mask. Features are in the order of `JOB_FEATURES`."""
    snapshot, jobs, count = view.snapshot, view.snapshot.jobs, len(rows)
    table, mask = np.zeros((slots, len(JOB_FEATURES)), np.float32), np.zeros(slots, np.int8)
    if not count:
        return table, mask
    mask[:count] = 1
    left, shape = view.left[rows], jobs.shape[rows]
    known = left == left  # noqa: PLR0124  not NaN
    seen = table[:count].T
    seen[0] = view.times(left)
    seen[1] = known
    seen[2] = LARGEST_SPREAD if view.spread is None else np.fmin(view.spread[rows], LARGEST_SPREAD)
    seen[3] = view.times(snapshot.now - jobs.submit[rows])
    seen[4] = np.minimum(jobs.shapes.share, 1.0)[shape]
    seen[5] = fits
    _look_closer(view, rows, seen)
    if not known.all():
        unknown = ~known
        seen[0, unknown] = seen[7, unknown] = 0.0
    if jobs.any_elastic:
        seen[10:12] = np.log2([_bounds(one) for one in jobs.shapes])[shape].T
    return np.minimum(table, FARTHEST, out=table), mask


def _look_closer(view: Sight, rows: Rows, seen: Float32) -> None:
    """What most jobs do not have: a priority, a deadline, training behind them."""
    snapshot, jobs = view.snapshot, view.snapshot.jobs
    trained, state = jobs.attained[rows], jobs.state[rows]
    if jobs.priority.any():
        priority = jobs.priority[rows]
        seen[6] = priority / (1.0 + np.abs(priority))
    if state.any():
        trained = trained + np.where(state == _RUNNING, snapshot.now - jobs.since[rows], 0.0)
        seen[9] = jobs.size[rows] / jobs.width[rows]
    if trained.any():
        seen[7] = trained / np.maximum(trained + view.left[rows], SHORTEST)
    deadline = jobs.deadline[rows]
    if deadline.min() < np.inf:
        seen[8] = _urgency(view.left[rows], deadline - snapshot.now)


def _bounds(shape: Any) -> tuple[float, float]:
    """Min and max size relative to the asked-for one."""
    asked = max(1, sum(shape.counts))
    return max(1, sum(shape.least)) / asked, max(1, sum(role.most for role in shape.roles)) / asked


def _urgency(left: FloatArray, until: FloatArray) -> FloatArray:
    """Time left over time left and slack: 1 where a deadline is past or missed, 0 where there is none."""
    left = np.where(np.isnan(left), 0.0, left)
    urgency: FloatArray = np.where(until <= left, 1.0, left / np.maximum(until, SHORTEST))
    return np.where(np.isfinite(until), urgency, 0.0)


def survey(view: Sight, free: npt.NDArray[np.int32], waiting: Rows, shown: int, finished: int) -> Float32:
    """The cluster as a vector, in the order of `CLUSTER_FEATURES`."""
    snapshot, jobs = view.snapshot, view.snapshot.jobs
    kind = _main_kind(snapshot)
    free_here, whole = free[kind], snapshot.nodes.capacity[kind]
    left, share = view.left[waiting], jobs.shapes.share[jobs.shape[waiting]]
    known = _known(left)
    unknown = len(left) - len(known)
    work = float(share @ (np.where(np.isnan(left), view.median, left) if unknown else left))
    return np.array([
        float(np.add.reduce(free_here)) / max(1, int(np.add.reduce(whole))),
        np.count_nonzero(free_here == whole) / len(whole),
        math.log2(1 + len(waiting)), math.log2(1 + len(view.snapshot.placements)),
        math.log2(1 + len(waiting) - shown),
        math.log2(1.0 + float(np.add.reduce(share))), view.time(work) if work > 0 else 0.0,
        view.time(view.ends[0]), view.time(view.ends[1]),
        len(known) / len(left) if len(left) else 0.0, _mean_spread(view, waiting),
        _share_elastic(snapshot, waiting) if jobs.any_elastic else 0.0,
        math.log2(1 + finished),
    ], np.float32)  # fmt: skip


def _mean_spread(view: Sight, rows: Rows) -> float:
    spread = _NOTHING if view.spread is None else _known(view.spread[rows])
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


def _known(values: FloatArray) -> FloatArray:
    """Without NaN."""
    kept: FloatArray = values[values == values]  # noqa: PLR0124  not NaN
    return kept


_NOTHING: FloatArray = np.zeros(0)


def _median(values: FloatArray) -> float:
    """The lower median."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])
