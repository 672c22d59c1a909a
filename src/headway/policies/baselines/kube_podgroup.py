"""The native kube-scheduler with PodGroups: a gang is placed whole or not at all.

Groups are tried by priority, then arrival, and one that does not fit holds up nobody. Each pod goes where the native
scheduler would put it alone (`kube-default`). The pods of a job end one after another, and groups are tried after each.
So a small group takes what has just become free, before there is enough for a large one that has waited for longer. Of
the scheduler's back-off nothing is left: its queue tries a group that waits as soon as it has nothing else to do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headway.core.draft import Draft
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.baselines.kube_default import best_node, pending, some_pod_fits


def kube_podgroup(snapshot: Snapshot) -> Plan:
    draft, shapes = Draft(snapshot), snapshot.jobs
    rows = some_pod_fits(draft, pending(snapshot)).tolist()
    ended = list(_just_ended(snapshot)) if rows else []
    free = draft.free.sum(axis=1) - sum(ended, np.zeros(len(draft.free), np.int64))
    for freed in [np.zeros_like(free), *ended]:
        free = free + freed
        for row in list(rows):
            demand = _demand(shapes.shape_at(row))
            if (demand <= free).all() and (found := _whole(draft, row)) is not None:
                draft.start(row, found)
                rows.remove(row)
                free = free - demand
    return draft.plan()


def _just_ended(snapshot: Snapshot) -> Iterator[IntArray]:
    """What each pod held of the jobs that have ended now."""
    jobs = snapshot.jobs
    for row in (jobs.over() & (jobs.since == snapshot.now)).nonzero()[0].tolist():
        for role in jobs.shape_at(row).roles:
            yield from [role.vector] * role.replicas


def _demand(shape: Shape) -> IntArray:
    found: IntArray = np.sum([role.vector * role.replicas for role in shape.roles], axis=0)
    return found


def _whole(draft: Draft, row: int) -> Placement | None:
    """Nodes for all its pods, node by node; None if one finds none."""
    snapshot, free = draft.snapshot, draft.free.copy()
    shape = snapshot.jobs.shape_at(row)
    if shape.missing:
        return None
    found: list[tuple[int, ...]] = []
    for role in shape.roles:
        nodes = []
        for _ in range(role.replicas):
            node = best_node(snapshot.nodes, free, role)
            if node is None:
                return None
            nodes.append(node)
            free[:, node] -= role.vector
        found.append(tuple(nodes))
    return Placement(tuple(found))
