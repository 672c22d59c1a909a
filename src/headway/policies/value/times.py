"""Times of jobs, by row: training left, service had, time waited, work not saved."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot
from headway.estimates.sizes.holder import holder_of

Rows = npt.NDArray[np.intp]


def seconds_left(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Seconds of training left at the asked-for size, aligned with the rows; NaN where unknown.

    The asked-for size counts whatever size a job has, so that its rank does not change when it is stopped.
    """
    jobs = snapshot.jobs
    left = snapshot.estimates.left_of(rows, snapshot.now)
    if not jobs.any_elastic:
        return left
    size = jobs.size[rows]
    places = ((size != jobs.width[rows]) & (size > 0)).nonzero()[0]
    if len(places):
        left[places] *= _speeds(snapshot, rows[places])
    return left


def _speeds(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """How fast these jobs are where they are, relative to the asked-for size."""
    lines = holder_of(snapshot).standings(snapshot, rows, changed_too=True)
    speeds: FloatArray = lines.numbers[1].copy()
    for place in (lines.numbers[0] < 0.0).nonzero()[0].tolist():
        speeds[place] = snapshot.estimates.speed(int(rows[place]), lines.placements[place].counts)
    return speeds


def service(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Replica-seconds that each of these running or waiting jobs has had up to now."""
    jobs = snapshot.jobs
    had: FloatArray = jobs.service[rows] + (snapshot.now - jobs.since[rows]) * jobs.size[rows]
    return had


def waited(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Seconds since submission in which the job did not train. Being stopped and started does not set it back."""
    jobs = snapshot.jobs
    seconds: FloatArray = snapshot.now - jobs.submit[rows] - jobs.trained_seconds(snapshot.now)[rows]
    return np.maximum(seconds, 0.0)


def unsaved(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Replica-seconds of training since the last checkpoint: what is lost if the job is stopped without saving."""
    jobs = snapshot.jobs
    lost: FloatArray = (jobs.trained_seconds(snapshot.now)[rows] - jobs.saved[rows]) * jobs.size[rows]
    return lost
