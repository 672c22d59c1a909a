"""Dominant resource fairness over users: the user with the smallest dominant share starts the next job.

A user's jobs come in order of arrival; what does not fit is passed. No job is stopped: shares become fair as jobs end.
"""

from __future__ import annotations

import heapq

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray
from headway.core.placement import Shape
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place_asked
from headway.policies.steps.start import may_fit


def drf(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    rows = may_fit(draft, snapshot.jobs.waiting())
    if not len(rows):
        return draft.plan()
    jobs = snapshot.jobs
    held, demand = _held(snapshot), _demands(snapshot)
    lines = {int(user): rows[jobs.user[rows] == user].tolist()[::-1] for user in np.unique(jobs.user[rows])}
    users = [(float(held[user].max(initial=0.0)), user) for user in lines]
    heapq.heapify(users)
    failed: set[tuple[int, int]] = set()
    while users:
        _, user = heapq.heappop(users)
        line = lines[user]
        while line:
            row = line.pop()
            alike = (int(jobs.shape[row]), int(jobs.can[row]))
            placement = None if alike in failed else place_asked(snapshot, draft.free, row)
            if placement is None:
                failed.add(alike)
                continue
            draft.start(row, placement)
            held[user] += demand[alike[0]] * placement.width() / jobs.width[row]
            heapq.heappush(users, (float(held[user].max(initial=0.0)), user))
            break
    return draft.plan()


def _held(snapshot: Snapshot) -> FloatArray:
    """By user and kind: the share of the cluster that the user's jobs hold, in flight or not."""
    jobs = snapshot.jobs
    rows = np.flatnonzero((jobs.state != int(State.WAITING)) & ~jobs.over())
    size = np.where(jobs.size[rows] > 0, jobs.size[rows] / np.maximum(jobs.width[rows], 1), 1.0)
    shares = _demands(snapshot)[jobs.shape[rows]] * size[:, None]
    held: FloatArray = np.zeros((len(jobs.users), len(snapshot.nodes.kinds)))
    for kind in range(held.shape[1]):
        held[:, kind] = np.bincount(jobs.user[rows], shares[:, kind], len(jobs.users))
    return held


def _demands(snapshot: Snapshot) -> FloatArray:
    """By shape and kind: the share of the cluster that a job of this shape asks for."""
    capacity = np.maximum(snapshot.nodes.total(), 1.0)
    demands: FloatArray = np.array([_demand(shape) for shape in snapshot.jobs.shapes]) / capacity
    return demands


def _demand(shape: Shape) -> FloatArray:
    total: FloatArray = sum(
        (role.vector.astype(np.float64) * role.replicas for role in shape.roles[1:]),
        start=shape.roles[0].vector.astype(np.float64) * shape.roles[0].replicas,
    )
    return total
