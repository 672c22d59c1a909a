"""Spread: every replica goes to the node that holds fewest, whatever they do there. A baseline.

In order of arrival, whole gangs or nothing, whatever fits passes. Of nodes that hold equally many the one with most cpu
free is taken. Nobody is moved or stopped.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, Shape
from headway.core.plan import Plan, Start
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import fits_on


def spread(snapshot: Snapshot) -> Plan:
    draft = Draft(snapshot)
    for row in snapshot.jobs.waiting().tolist():
        placement = spread_out(snapshot, draft.free, snapshot.jobs.shape_at(row), replicas(draft))
        if placement is not None:
            draft.start(row, placement)
    return draft.plan()


def spread_out(snapshot: Snapshot, free: IntArray, shape: Shape, held: FloatArray) -> Placement | None:
    """Replica by replica, each where fewest are; None where not all of them fit. `held`: how many are on each node."""
    if shape.missing:
        return None
    left, held, chosen = free.copy(), held.copy(), list[tuple[int, ...]]()
    for role in shape.roles:
        nodes = []
        for _ in range(role.replicas):
            fits = np.flatnonzero(fits_on(snapshot.nodes, left, role))
            if not len(fits):
                return None
            node = int(fits[np.lexsort((-_free_cpu(snapshot, left)[fits], held[fits]))[0]])
            nodes.append(node)
            left[:, node] -= role.vector
            held[node] += 1
        chosen.append(tuple(nodes))
    return Placement(tuple(chosen))


def replicas(draft: Draft) -> FloatArray:
    """By node: replicas that are there, on their way there, or started by this plan."""
    snapshot = draft.snapshot
    held: FloatArray = np.zeros(len(snapshot.nodes))
    placements = list(snapshot.placements.values())
    placements += [flight.towards for flight in snapshot.flights.values() if flight.towards is not None]
    starts = (draft.decided(row) for row in draft.decided_rows())
    placements += [decision.placement for decision in starts if isinstance(decision, Start)]
    for placement in placements:
        for nodes in placement.nodes:
            np.add.at(held, list(nodes), 1.0)
    return held


def _free_cpu(snapshot: Snapshot, free: IntArray) -> IntArray:
    kinds = snapshot.nodes.kinds
    cpu: IntArray = free[kinds.index(CPU) if CPU in kinds else 0]
    return cpu
