"""Placement on the emptiest nodes first: what a scheduler does that spreads, and some published baselines with it.

Small jobs do not disturb each other, and large ones find few whole nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import room


def place_emptiest(
    snapshot: Snapshot, free: IntArray, shape: Shape, counts: Sequence[int] | None = None
) -> Placement | None:
    """Role by role in start order: the node that takes most replicas gets as many as it takes, then the next."""
    wanted = tuple(counts) if counts is not None else shape.counts
    if shape.missing:
        return None
    left = free.copy() if len(shape.roles) > 1 else free
    chosen: list[tuple[int, ...]] = [()] * len(shape.roles)
    for number in shape.order:
        role, count = shape.roles[number], wanted[number]
        takes = room(snapshot.nodes, left, role)
        if int(takes.sum()) < count:
            return None
        order = np.argsort(-takes, kind="stable")
        before = np.cumsum(takes[order]) - takes[order]
        each = np.clip(count - before, 0, takes[order])
        chosen[number] = tuple(np.repeat(order, each).tolist())
        if len(shape.roles) > 1:
            left[:, order] -= role.vector[:, None] * each.astype(np.int32)
    return Placement(tuple(chosen))
