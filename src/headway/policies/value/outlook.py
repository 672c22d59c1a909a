"""The state of the cluster in a few numbers: what a trained policy chooses its settings by.

Each is a share. So they do not depend on how large the cluster is, how many jobs it has had, nor on whether its jobs
take minutes or days.
"""

from __future__ import annotations

import math

import numpy as np

from headway.core.node import FloatArray
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.policies.value.sizes import shares
from headway.policies.value.times import Rows

FEATURES = ("load", "used", "queue", "waiting", "elastic", "known", "spread", "history")
"""Share of the cluster that is held; of the cores that are held, the share that was measured as used, 1 where nothing
is measured; what waiting jobs ask for, over that and one cluster; of the unfinished jobs the share that waits, the
share whose size may be chosen and the share with a belief of the time left; the mean spread of these beliefs; how much
the beliefs rest on: jobs that are over, over these and `MUCH_HISTORY`."""
LARGEST_SPREAD = 2.0
MUCH_HISTORY = 100


def outlook(snapshot: Snapshot) -> FloatArray:
    """In the order of `FEATURES`."""
    jobs = snapshot.jobs
    rows, waiting = np.flatnonzero(~jobs.over()), jobs.waiting()
    whole = np.maximum(snapshot.nodes.total(), 1e-9)
    load = float(np.max(1.0 - snapshot.free.sum(axis=1) / whole)) if snapshot.free.size else 0.0
    queue = float(shares(snapshot, waiting).sum())
    known, spread = _beliefs(snapshot, rows)
    arrived = jobs.serial_of(jobs.count - 1) + 1 if jobs.count else 0
    over = max(0, arrived - len(rows))
    return np.array([
        min(max(load, 0.0), 1.0), _used(snapshot), queue / (1.0 + queue), len(waiting) / max(len(rows), 1),
        _elastic(snapshot, rows), known, spread, over / (over + MUCH_HISTORY),
    ])  # fmt: skip


def _used(snapshot: Snapshot) -> float:
    """Of the jobs whose use is measured."""
    if not snapshot.used_cpu or CPU not in snapshot.nodes.kinds:
        return 1.0
    rows = sorted(row for row in snapshot.used_cpu if row in snapshot.placements)
    held = [_held_cores(snapshot, row) for row in rows]
    used = math.fsum(min(snapshot.used_cpu[row], cores) for row, cores in zip(rows, held, strict=True))
    return used / math.fsum(held) if any(held) else 1.0


def _held_cores(snapshot: Snapshot, row: int) -> float:
    kind = snapshot.nodes.kinds.index(CPU)
    holdings = snapshot.placements[row].holdings(snapshot.jobs.shape_at(row))
    return math.fsum(count * int(vector[kind]) for _, count, vector in holdings) / 1000.0


def _beliefs(snapshot: Snapshot, rows: Rows) -> tuple[float, float]:
    """The share of these jobs with a belief, and the mean spread of the beliefs."""
    if not snapshot.estimates.known or not len(rows):
        return 0.0, LARGEST_SPREAD
    beliefs = snapshot.estimates.beliefs
    known = rows[np.isfinite(beliefs.left[rows])]
    if not len(known) or beliefs.spread is None:
        return len(known) / len(rows), LARGEST_SPREAD
    spread = np.nan_to_num(beliefs.spread[known], nan=LARGEST_SPREAD, posinf=LARGEST_SPREAD)
    return len(known) / len(rows), float(np.minimum(spread, LARGEST_SPREAD).mean())


def _elastic(snapshot: Snapshot, rows: Rows) -> float:
    jobs = snapshot.jobs
    if not jobs.any_elastic or not len(rows):
        return 0.0
    elastic = np.array([shape.elastic for shape in jobs.shapes])
    return float(elastic[jobs.shape[rows]].mean())
