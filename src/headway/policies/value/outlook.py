"""The state of the cluster in a few numbers: what a trained policy chooses its settings by.

The numbers do not depend on how large the cluster is, nor on whether its jobs take minutes or days.
"""

from __future__ import annotations

import math

import numpy as np

from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot
from headway.policies.value.sizes import shares
from headway.policies.value.times import Rows

FEATURES = ("load", "queue", "waiting", "elastic", "known", "spread", "history")
"""Share of the cluster that is held; what waiting jobs ask for, in clusters, and their number, as log2(1 + x); of the
unfinished jobs the share whose size may be chosen and the share with a belief of the time left; the mean spread of
these beliefs; jobs that are over, as log2(1 + n): how much the beliefs rest on."""
LARGEST_SPREAD = 2.0


def outlook(snapshot: Snapshot) -> FloatArray:
    """In the order of `FEATURES`."""
    jobs = snapshot.jobs
    rows, waiting = np.flatnonzero(~jobs.over()), jobs.waiting()
    whole = np.maximum(snapshot.nodes.total(), 1e-9)
    load = float(np.max(1.0 - snapshot.free.sum(axis=1) / whole)) if snapshot.free.size else 0.0
    known, spread = _beliefs(snapshot, rows)
    arrived = jobs.serial_of(jobs.count - 1) + 1 if jobs.count else 0
    return np.array([
        min(max(load, 0.0), 1.0), math.log2(1.0 + float(shares(snapshot, waiting).sum())),
        math.log2(1.0 + len(waiting)), _elastic(snapshot, rows), known, spread,
        math.log2(1.0 + max(0, arrived - len(rows))),
    ])  # fmt: skip


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
