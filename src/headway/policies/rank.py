"""Orders of jobs. Key and position are packed into one int64 and sorted, which is several times faster than a stable
argsort and much faster than sorting objects.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.job import Can
from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot

Rows = npt.NDArray[np.intp]

_LARGEST = 1 << 42
"""Thousandths of the key: a hundred and forty years of seconds."""


def by_key(rows: Rows, key: npt.NDArray[np.floating | np.integer]) -> Rows:
    """The rows by ascending key, to a thousandth; ties stay as they are, not-a-number and infinity come last.

    `key` is aligned with `rows` and not negative.
    """
    bits = len(rows).bit_length()
    if bits > 20:
        return rows[np.argsort(key, kind="stable")]
    thousandths = np.where(np.isfinite(key), np.minimum(key * 1000.0, _LARGEST - 1), _LARGEST).astype(np.int64)
    packed = (thousandths << bits) | np.arange(len(rows))
    packed.sort()
    ordered: Rows = rows[packed & ((1 << bits) - 1)]
    return ordered


def touchable(snapshot: Snapshot) -> Rows:
    """Jobs that a preempting policy ranks: running ones that it may stop, then waiting ones; each in arrival order.

    Running ones come first, so that a tie never stops anybody.
    """
    jobs = snapshot.jobs
    running = jobs.running()
    stoppable = running[(jobs.can[running] & int(Can.STOP)) != 0]
    return np.concatenate([stoppable, jobs.waiting()])


def seconds_left(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Seconds of training left as estimated, aligned with the rows; not a number where nobody knows."""
    left: FloatArray = snapshot.estimates.left(snapshot.now)[rows]
    return left


def service(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Replica-seconds that each of the rows has had up to now."""
    jobs = snapshot.jobs
    since = np.where(jobs.training()[rows], snapshot.now - jobs.since[rows], 0.0)
    had: FloatArray = jobs.service[rows] + since * jobs.size[rows]
    return had
