"""What fits: how many replicas of a role each node takes, now or if the cluster were empty."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.node import BoolArray, Constraint, IntArray, Nodes
from headway.core.placement import RoleShape


def empty(nodes: Nodes) -> IntArray:
    """What would be free if no job ran."""
    return nodes.capacity if nodes.ready.all() else np.where(nodes.ready, nodes.capacity, 0).astype(np.int32)


def room(nodes: Nodes, free: IntArray, role: RoleShape) -> npt.NDArray[np.int64]:
    """How many replicas of this role each node takes."""
    count: npt.NDArray[np.int64] | None = None
    for kind, amount in role.asks:
        each = free[kind] // amount if amount > 1 else free[kind]
        count = each if count is None else np.minimum(count, each)
    if count is None:
        return np.where(nodes.mask(role.constraint), max(role.max, 1), 0)  # asks for nothing: any number
    count = np.maximum(count, 0)
    return count if nodes.all_suit(role.constraint) else np.where(nodes.mask(role.constraint), count, 0)


class Rooms:
    """How many replicas all nodes together take, counted once for roles with the same request."""

    __slots__ = ("_free", "_known", "_nodes")

    def __init__(self, nodes: Nodes, free: IntArray) -> None:
        self._nodes = nodes
        self._free = free
        self._known: dict[tuple[tuple[tuple[int, int], ...], Constraint], int] = {}

    def total(self, role: RoleShape) -> int:
        key = (role.asks, role.constraint)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = int(np.add.reduce(room(self._nodes, self._free, role)))
        return known if role.asks else known * role.max


def fits_on(nodes: Nodes, free: IntArray, role: RoleShape) -> BoolArray:
    """The nodes that take one replica of this role."""
    fits: BoolArray | None = None if nodes.all_suit(role.constraint) and role.asks else nodes.mask(role.constraint)
    for kind, amount in role.asks:
        enough = free[kind] >= amount
        fits = enough if fits is None else fits & enough
    assert fits is not None
    return fits


def takes_empty(nodes: Nodes, role: RoleShape, count: int) -> bool:
    """Whether the empty cluster takes this many replicas of one role."""
    if not count:
        return True
    return nodes.slots(role.asks, role.constraint) >= count if role.asks else bool(nodes.mask(role.constraint).any())
