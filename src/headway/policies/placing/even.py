"""Placement after Optimus: the fewest nodes on which the job fits, each role spread evenly over them.

With the numbers of parameter servers and workers given, this is where they exchange least over the network.
"""

from __future__ import annotations

import numpy as np

from headway.core.estimates import Counts
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place


def place_evenly(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Counts) -> Placement | None:
    """Over the emptiest nodes, as few as will do; where no even spread fits, any placement."""
    if shape.missing:
        return None
    suits = np.ones(len(snapshot.nodes), np.bool_)
    for role in shape.roles:
        suits &= snapshot.nodes.mask(role.constraint)
    candidates = np.flatnonzero(suits)
    total = np.maximum(snapshot.nodes.capacity[:, candidates].sum(axis=1), 1)
    emptiness = (free[:, candidates] / total[:, None]).min(axis=0, initial=np.inf, where=(total > 1)[:, None])
    order = candidates[np.argsort(-emptiness, kind="stable")]
    for width in range(1, min(len(order), max(counts, default=0)) + 1):
        per_role = [_spread(count, width) for count in counts]
        need = sum(np.outer(role.vector, each) for role, each in zip(shape.roles, per_role, strict=True))
        if np.all(free[:, order[:width]] >= need):
            nodes = order[:width]
            return Placement(tuple(tuple(np.repeat(nodes, each).tolist()) for each in per_role))
    return place(snapshot, free, shape, counts)


def _spread(count: int, width: int) -> IntArray:
    """So many replicas over so many nodes; the first nodes take one more where it does not come out even."""
    each: IntArray = np.full(width, count // width, np.int32)
    each[: count % width] += 1
    return each
