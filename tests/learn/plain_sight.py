"""What an agent sees, computed job by job from the snapshot alone: the reference for what environments copy."""

from __future__ import annotations

import math

import numpy as np

from headway.core.draft import Draft
from headway.core.snapshot import Snapshot
from headway.core.states import State


def seen_plainly(snapshot: Snapshot, draft: Draft, shown: list[int], fits: list[bool], slots: int) -> dict:
    """`snapshot` has estimates; `shown` are rows, those that wait first."""
    median = _median(snapshot)
    jobs, mask = np.zeros((slots, 12), np.float32), np.zeros(slots, np.int8)
    for slot, row in enumerate(shown):
        jobs[slot], mask[slot] = _job(snapshot, row, fits[slot], median), 1
    waiting = [row for row in _rows(snapshot, State.WAITING) if draft.decided(row) is None]
    return {"jobs": jobs, "job_mask": mask, "cluster": _cluster(snapshot, draft, waiting, shown, median)}


def _rows(snapshot: Snapshot, state: State) -> list[int]:
    return [row for row in range(snapshot.jobs.count) if snapshot.jobs.state_of(row) is state]


def _left(snapshot: Snapshot, row: int) -> float:
    return snapshot.estimates.of(row, snapshot.now).left if snapshot.estimates.known else math.nan


def _spread(snapshot: Snapshot, row: int) -> float:
    return snapshot.estimates.of(row, snapshot.now).spread if snapshot.estimates.known else math.nan


def _median(snapshot: Snapshot) -> float:
    rows = [*_rows(snapshot, State.WAITING), *_rows(snapshot, State.RUNNING)]
    alive = sorted(left for left in (_left(snapshot, row) for row in rows) if not math.isnan(left))
    alive = alive or sorted(snapshot.now - snapshot.jobs.job(row).submit for row in rows)
    return max(alive[(len(alive) - 1) // 2], 1e-3) if alive else 1.0


def _time(seconds: float, median: float) -> float:
    return math.log2(max(seconds, 1e-3) / median) if math.isfinite(seconds) else 0.0


def _job(snapshot: Snapshot, row: int, fits: bool, median: float) -> tuple[float, ...]:
    fields, job, shape = snapshot.jobs.read(row), snapshot.jobs.job(row), snapshot.jobs.shape_at(row)
    left, spread, runs = _left(snapshot, row), _spread(snapshot, row), fields.state == State.RUNNING
    known, trained = not math.isnan(left), fields.attained + (snapshot.now - fields.since if runs else 0.0)
    urgency = 0.0
    if job.deadline is not None:
        until, needed = job.deadline - snapshot.now, left if known else 0.0
        urgency = 1.0 if until <= needed else needed / max(until, 1e-3)
    asked = sum(shape.counts)
    return (
        _time(left, median), _time(snapshot.now - job.submit, median), float(known),
        2.0 if math.isnan(spread) else min(spread, 2.0), float(fits),
        trained / max(trained + left, 1e-3) if known else 0.0, urgency, fields.size / job.replicas,
        min(float(snapshot.jobs.shapes.share[snapshot.jobs.columns.shapes[row]]), 1.0),
        job.priority / (1 + abs(job.priority)), math.log2(max(1, sum(shape.min)) / asked),
        math.log2(sum(role.max for role in shape.roles) / asked),
    )  # fmt: skip


def _cluster(snapshot: Snapshot, draft: Draft, waiting: list[int], shown: list[int], median: float) -> np.ndarray:
    jobs, kind = snapshot.jobs, snapshot.jobs.shapes[0].roles[-1].asks[-1][0]
    free, whole = draft.free[kind].tolist(), snapshot.nodes.capacity[kind].tolist()
    left = [_left(snapshot, row) for row in waiting]
    share = [min(float(jobs.shapes.share[jobs.columns.shapes[row]]), 1.0) for row in waiting]
    work = sum(part * (median if math.isnan(time) else time) for part, time in zip(share, left, strict=True))
    ends = [time for time in (_left(snapshot, row) for row in _rows(snapshot, State.RUNNING)) if not math.isnan(time)]
    spread = [spread for spread in (_spread(snapshot, row) for row in waiting) if not math.isnan(spread)]
    many = len(waiting) or 1
    return np.array((
        sum(free) / sum(whole), sum(one == all_ for one, all_ in zip(free, whole, strict=True)) / len(whole),
        math.log2(1 + len(waiting)), math.log2(1 + len(snapshot.placements)),
        math.log2(1 + len(waiting) - len([row for row in shown if row in waiting])),
        math.log2(1 + sum(share)), _time(work, median) if work > 0 else 0.0,
        _time(min(ends, default=math.inf), median), _time(sum(ends) / len(ends) if ends else math.inf, median),
        sum(not math.isnan(time) for time in left) / many, min(sum(spread) / len(spread), 2.0) if spread else 2.0,
        sum(jobs.shape_at(row).elastic for row in waiting) / many,
        math.log2(1 + sum(jobs.is_over(row) for row in range(jobs.count)) + jobs.serial_of(0)),
    ), np.float32)  # fmt: skip
