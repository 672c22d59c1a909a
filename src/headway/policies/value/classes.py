"""Who comes before everybody of his kind: the administrator's word, those in trial, the latest, and deadlines at risk.

Each is a mask over rows, and each but the first is bounded by a share of the cluster, so that none can take it over.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.node import BoolArray, FloatArray
from headway.core.placement import Shape
from headway.core.snapshot import Snapshot
from headway.policies.steps.order import Rows
from headway.policies.value.sizes import capacity, dominant_share

WIDEST = 1e3
"""Share of a job that asks for what no node has."""


def shares(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Of the cluster, at the asked-for size: the largest of any kind, never zero."""
    known = snapshot.nodes.known
    shapes = snapshot.jobs.shapes
    before = known.get("shares")
    if not (isinstance(before, tuple) and before[0] is shapes):
        whole = capacity(snapshot)
        each = np.array([max(1e-9, dominant_share(_asked(shape, len(whole)), whole)) for shape in shapes])
        each = np.minimum(each, WIDEST)
        before = known["shares"] = (shapes, each)
    found: FloatArray = before[1][snapshot.jobs.shape[rows]]
    return found


def _asked(shape: Shape, kinds: int) -> FloatArray:
    """By kind."""
    total: FloatArray = np.zeros(kinds)
    for role in shape.roles:
        total += role.vector.astype(np.float64) * role.replicas
    return total


def priority_class(
    snapshot: Snapshot, rows: Rows, user_priority: tuple[tuple[str, float], ...], others: float
) -> npt.NDArray[np.int64]:
    """0 for the first class, 1 for the next: users' priorities as the administrator set them, then the jobs' own."""
    jobs = snapshot.jobs
    level = jobs.priority[rows].astype(np.float64)
    if user_priority:
        given = dict(user_priority)
        users = np.full(max(len(jobs.users), 1), others)
        for name, number in jobs.users.items():
            users[number] = given.get(name, others)
        level += users[jobs.user[rows]] * 1e6
    if not len(rows) or (level == level[0]).all():
        return np.zeros(len(rows), np.int64)
    _, place = np.unique(-level, return_inverse=True)
    return place.astype(np.int64)


def first_within(worth: FloatArray, share: FloatArray, most: float, eligible: BoolArray) -> BoolArray:
    """Of those who are eligible, the ones of highest worth who together have no more than `most`; at least one."""
    chosen = np.zeros(len(worth), np.bool_)
    places = np.flatnonzero(eligible)
    if len(places) and most > 0:
        order = places[np.argsort(-worth[places], kind="stable")]
        inside = np.cumsum(share[order]) <= most + 1e-9
        inside[0] = True
        chosen[order[inside]] = True
    return chosen
