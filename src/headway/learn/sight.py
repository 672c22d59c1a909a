"""What an agent sees: the jobs as a set of rows with a mask, and the cluster as a vector.

Beliefs only, never the truth. Times are logarithms relative to the present median of the believed times left, so that
an agent trained on short jobs sees long ones alike. docs/learn.md explains each feature.
"""

from __future__ import annotations

import math
from operator import eq
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from headway.core.errors import UserError
from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.learn.fitting import FEW
from headway.learn.line import (
    AGE,
    DEADLINE,
    DONE,
    FITS,
    JOB_FEATURES,
    KNOWN,
    LARGEST_SPREAD,
    LEFT,
    LEFT_SECONDS,
    LOG_LEFT,
    SHAPE,
    SHARE,
    SHORTEST,
    SIZE,
    SPREAD,
    SUBMIT,
    URGENCY,
    WaitingLine,
)  # fmt: skip
from headway.policies.value.times import Rows

__all__ = [
    "CLUSTER_FEATURES",
    "JOB_FEATURES",
    "Float32",
    "Observation",
    "Sight",
    "look",
    "nothing_to_see",
    "observation_space",
    "survey",
]

Observation = dict[str, Any]
"""Arrays by the names of `observation_space`."""
Float32 = npt.NDArray[np.float32]

CLUSTER_FEATURES = (
    "free", "idle_nodes", "waiting", "running", "not_shown", "demand", "demand_seconds", "next_end", "mean_end",
    "known", "spread", "elastic", "finished",
)  # fmt: skip
FARTHEST = 64.0
"""Bound of all logarithms to base 2: no two times that a float tells apart are that far from each other."""
_RUNNING = int(State.RUNNING)


def observation_space(slots: int, actions: int) -> spaces.Dict:
    """`jobs` (slots, features), `job_mask` (slots,), `cluster` (features,), `action_mask` (actions,)."""
    if slots < 1:
        raise UserError(f"slots {slots}: give 1 or more")
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


class Sight:
    """What one cycle's observations share. Made once per cycle, before the agent is asked first."""

    __slots__ = ("ends", "line", "log_median", "median", "snapshot")

    def __init__(self, snapshot: Snapshot, line: WaitingLine) -> None:
        self.snapshot, self.line = snapshot, line
        ends, left = line.believe(snapshot), line.table[:, LEFT_SECONDS]
        alive = np.concatenate((left if line.all_known else _known(left), ends))
        if not len(alive):
            jobs = snapshot.jobs
            alive = snapshot.now - jobs.submit[np.concatenate((jobs.waiting(), jobs.running()))]
        self.median = max(_median(alive), SHORTEST) if len(alive) else 1.0
        """The present median of the believed times left; of the ages where nothing is known."""
        self.log_median = math.log2(self.median)
        self.ends = (math.inf, math.inf)
        """Of the running jobs: the believed seconds until the first ends, and in the mean; infinite without any."""
        if len(ends):
            self.ends = float(np.minimum.reduce(ends)), float(np.add.reduce(ends)) / len(ends)

    def time(self, seconds: float) -> float:
        """One time relative to the median; 0 for what never comes."""
        if seconds == math.inf:
            return 0.0
        return math.log2(max(SHORTEST, seconds)) - self.log_median


def look(
    sight: Sight, places: Rows | None, running: Rows, fits: BoolArray, slots: int
) -> tuple[Float32, npt.NDArray[np.int8]]:
    """The rows of the set, and its mask: the jobs at these places of the line (None: all), then those that run."""
    line, now, log_median = sight.line, sight.snapshot.now, sight.log_median
    table = line.table
    if places is not None:
        table = table[places]
    waiting, count = len(table), len(table) + len(running)
    jobs, mask = np.zeros((slots, len(JOB_FEATURES)), np.float32), np.zeros(slots, np.int8)
    mask[:count] = 1
    seen = jobs[:waiting]
    seen[:] = table[:, : len(JOB_FEATURES)]
    seen[:, LEFT] = table[:, LOG_LEFT] - log_median
    seen[:, AGE] = _log(now - table[:, SUBMIT]) - log_median
    if line.any_deadline:
        seen[:, URGENCY] = _urgency(table[:, LEFT_SECONDS], table[:, DEADLINE] - now)
    if not line.all_known:
        seen[table[:, KNOWN] == 0.0, LEFT] = 0.0
    if len(running):
        _look_at_running(sight, running, jobs[waiting:count])
    jobs[:count, FITS] = fits
    if not line.all_known:
        np.minimum(jobs, FARTHEST, out=jobs)
    return jobs, mask


def _look_at_running(sight: Sight, rows: Rows, seen: Float32) -> None:
    """The same features of jobs that run."""
    snapshot, jobs, estimates = sight.snapshot, sight.snapshot.jobs, sight.snapshot.estimates
    left = estimates.left_of(rows, snapshot.now) if estimates.known else np.full(len(rows), np.nan)
    spread = estimates.beliefs.spread if estimates.known else None
    trained = jobs.attained[rows] + np.where(jobs.state[rows] == _RUNNING, snapshot.now - jobs.since[rows], 0.0)
    seen[:, SHARE:] = [sight.line.fixed(snapshot, row) for row in rows.tolist()]
    seen[:, LEFT] = _log(left) - sight.log_median
    seen[:, AGE] = _log(snapshot.now - jobs.submit[rows]) - sight.log_median
    seen[:, SPREAD] = LARGEST_SPREAD if spread is None else np.fmin(spread[rows], LARGEST_SPREAD)
    seen[:, SIZE] = jobs.size[rows] / jobs.width[rows]
    seen[:, DONE] = trained / np.maximum(trained + left, SHORTEST)
    seen[:, URGENCY] = _urgency(left, jobs.deadline[rows] - snapshot.now)
    unknown = np.isnan(left)
    seen[:, KNOWN] = ~unknown
    seen[unknown, LEFT] = seen[unknown, DONE] = 0.0


def _urgency(left: FloatArray, until: FloatArray) -> FloatArray:
    """Time left over time left and slack: 1 where a deadline is past or missed, 0 where there is none."""
    left = np.where(np.isnan(left), 0.0, left)
    urgency: FloatArray = np.where(until <= left, 1.0, left / np.maximum(until, SHORTEST))
    return np.where(np.isfinite(until), urgency, 0.0)


def survey(sight: Sight, free: npt.NDArray[np.int32], shown: int, finished: int) -> Float32:
    """The cluster as a vector, in the order of `CLUSTER_FEATURES`. `shown`: how many of the waiting jobs are."""
    snapshot, line, log2 = sight.snapshot, sight.line, math.log2
    kind, total, whole = _main_kind(snapshot)
    (unused, idle), table, count = _unused(free[kind], whole), line.table, len(line.rows)
    left, share, known = table[:, LEFT_SECONDS], table[:, SHARE], count
    if not line.all_known:
        known = len(_known(left))
        left = np.where(np.isfinite(left), left, sight.median)
    work = share.dot(left)
    return np.array((
        unused / total, idle / len(whole),
        log2(1 + count), log2(1 + len(snapshot.placements)), log2(1 + count - shown),
        log2(1.0 + np.add.reduce(share)), sight.time(work) if work > 0 else 0.0,
        sight.time(sight.ends[0]), sight.time(sight.ends[1]),
        known / count if count else 0.0, _mean_spread(sight),
        _share_elastic(sight) if snapshot.jobs.any_elastic else 0.0,
        log2(1 + finished),
    ), np.float32)  # fmt: skip


def _mean_spread(sight: Sight) -> float:
    """Over the waiting jobs of which it is known."""
    estimates = sight.snapshot.estimates
    if estimates.of_row is not None or not estimates.known or estimates.beliefs.spread is None:
        return LARGEST_SPREAD
    spread = _known(estimates.beliefs.spread[sight.line.rows])
    return min(float(np.add.reduce(spread)) / len(spread), LARGEST_SPREAD) if len(spread) else LARGEST_SPREAD


def _share_elastic(sight: Sight) -> float:
    """Over the waiting jobs."""
    rows, shapes = sight.line.table, sight.snapshot.jobs.shapes
    elastic = np.array([shape.elastic for shape in shapes])
    return float(elastic[rows[:, SHAPE].astype(np.intp)].sum()) / len(rows) if len(rows) else 0.0


def _unused(free: npt.NDArray[np.int32], whole: npt.NDArray[np.int32]) -> tuple[int, int]:
    """What is free on all nodes, and how many nodes are idle. Of few nodes Python's own sums are faster."""
    if len(whole) > FEW:
        return int(np.add.reduce(free)), int(np.count_nonzero(free == whole))
    now = free.tolist()
    return sum(now), sum(map(eq, now, whole.tolist()))


def _main_kind(snapshot: Snapshot) -> tuple[int, int, npt.NDArray[np.int32]]:
    """The kind of resource that jobs mostly ask for, the last one of the first shape: all of it, and by node."""
    shapes = snapshot.jobs.shapes
    asks = shapes[0].roles[-1].asks if len(shapes) else ()
    kind = asks[-1][0] if asks else 0
    whole = snapshot.nodes.capacity[kind]
    return kind, max(1, int(np.add.reduce(whole))), whole


def _log(seconds: FloatArray) -> FloatArray:
    """Logarithms to base 2; NaN stays NaN."""
    times: FloatArray = np.maximum(seconds, SHORTEST)
    return np.log2(times, out=times)


def _all_known(values: FloatArray) -> bool:
    """Whether all are finite. One sum tells, which is faster than looking at each."""
    return math.isfinite(np.add.reduce(values))


def _known(values: FloatArray) -> FloatArray:
    """Those that are finite."""
    return values if _all_known(values) else values[np.isfinite(values)]


def _median(values: FloatArray) -> float:
    """The lower median. Reorders the values."""
    middle = (len(values) - 1) // 2
    values.partition(middle)
    return values.item(middle)
