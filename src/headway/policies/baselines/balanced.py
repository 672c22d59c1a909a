"""Balanced resource: every replica goes where it leaves the shares of cpu, memory and other kinds closest. A baseline.

This is the native scheduler's BalancedAllocation alone. A node's score is one less the standard deviation of the shares
of its resources that are requested once the replica is there. Jobs start in order of arrival, whole gangs or nothing;
what does not fit is passed. Of equal nodes the one with most of everything free is taken. No job is moved or stopped.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray, Nodes
from headway.core.placement import Placement, RoleShape, Shape
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.room import fits_on
from headway.policies.value.times import Rows

SCORES = 100
"""Scores are whole numbers up to this, as the native scheduler's are."""


def balanced(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    for row in snapshot.jobs.waiting().tolist():
        placement = _place(snapshot.nodes, draft.free, snapshot.jobs.shape_at(row))
        if placement is not None:
            draft.start(row, placement)
    return draft.plan()


def _place(nodes: Nodes, free: IntArray, shape: Shape) -> Placement | None:
    if shape.missing:
        return None
    left, chosen = free.copy(), list[tuple[int, ...]]()
    for role in shape.roles:
        where = []
        for _ in range(role.replicas):
            fits = np.flatnonzero(fits_on(nodes, left, role))
            if not len(fits):
                return None
            share = _shares(nodes, left, role, fits)
            score = np.floor(SCORES * (1.0 - share.std(axis=0))) if len(share) else np.zeros(len(fits))
            node = int(fits[np.lexsort((share.sum(axis=0), -score))[0]])
            where.append(node)
            left[:, node] -= role.vector
        chosen.append(tuple(where))
    return Placement(tuple(chosen))


def _shares(nodes: Nodes, free: IntArray, role: RoleShape, fits: Rows) -> FloatArray:
    """(kinds that the role asks for, nodes): share requested once a replica is there."""
    kinds = [kind for kind, _ in role.asks]
    capacity = np.maximum(nodes.capacity[kinds][:, fits], 1)
    shares: FloatArray = 1.0 - (free[kinds][:, fits] - role.vector[kinds][:, None]) / capacity
    return shares
