"""Packing: a whole gang or nothing, on few nodes, in few topology domains, servers next to workers.

Counting comes first: how many replicas does each node take? The counts alone answer for most jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from headway.core.estimates import Counts
from headway.core.job import Can
from headway.core.node import BoolArray, FloatArray, IntArray, Nodes
from headway.core.placement import Placement, RoleShape, Shape
from headway.core.quantity import LARGEST
from headway.core.snapshot import Snapshot
from headway.policies.placing.room import empty, fits_on, room

SAME_NODE, SAME_DOMAIN = 10.0, 0.1
"""What a replica on the same node counts for, and what one in the same topology domain does."""
FEW_NODES = 128
"""Up to this many nodes, plain lists are faster than numpy."""
Placing = Callable[[Snapshot, IntArray, Shape, Counts], Placement | None]
"""Where this many replicas per role go; None where they do not fit."""


def place(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Sequence[int] | None = None) -> Placement | None:
    """A placement for this many replicas per role (as asked for by default), or None where they do not fit."""
    wanted = tuple(counts) if counts is not None else shape.counts
    if shape.missing:
        return None
    if len(shape.roles) == 1:
        nodes = _role_nodes(snapshot.nodes, free, shape.roles[0], wanted[0])
        return None if nodes is None else Placement((nodes,))
    return _together(snapshot.nodes, free, shape, wanted) or _role_by_role(snapshot.nodes, free, shape, wanted)


def place_any_size(snapshot: Snapshot, free: IntArray, row: int, placing: Placing | None = None) -> Placement | None:
    """At the asked-for size where that fits; else, where the job allows it, the largest size down to its min.

    `placing` places one size; `place` by default.
    """
    shape, place_one = snapshot.jobs.shape_at(row), placing or place
    placement = place_one(snapshot, free, shape, shape.counts)
    if placement is not None or not shape.elastic or not int(snapshot.jobs.can[row]) & Can.SIZE:
        return placement
    found = (place_one(snapshot, free, shape, counts) for counts in smaller_sizes(shape))
    return next((placement for placement in found if placement is not None), None)


def place_asked(snapshot: Snapshot, free: IntArray, row: int) -> Placement | None:
    """At the asked-for size and no smaller, unless even the empty cluster could not hold that."""
    shape = snapshot.jobs.shape_at(row)
    placement = place(snapshot, free, shape)
    if placement is not None or not shape.elastic or place(snapshot, empty(snapshot.nodes), shape) is not None:
        return placement
    return place_any_size(snapshot, free, row)


def smaller_sizes(shape: Shape) -> list[tuple[int, ...]]:
    """Sizes below the asked-for one, the largest first: the role with most to give loses a replica each time."""
    counts = list(shape.counts)
    sizes: list[tuple[int, ...]] = []
    while True:
        spare = [count - role.min for count, role in zip(counts, shape.roles, strict=True)]
        role = max(range(len(spare)), key=spare.__getitem__)
        if spare[role] <= 0:
            return sizes
        counts[role] -= 1
        sizes.append(tuple(counts))


def _role_nodes(nodes: Nodes, free: IntArray, role: RoleShape, count: int) -> tuple[int, ...] | None:
    if count == 0:
        return ()
    if len(role.asks) == 1 and len(nodes) <= FEW_NODES and nodes.domains == 1 and nodes.all_suit(role.constraint):
        kind, amount = role.asks[0]
        return _on_few(free[kind].tolist(), amount, count)
    if count == 1:
        best = _tightest(free, fits_on(nodes, free, role), role)
        return None if best is None else (best,)
    takes = room(nodes, free, role)
    best = _tightest(free, takes >= count, role)
    if best is not None:
        return (best,) * count
    if int(np.add.reduce(takes)) < count:
        return None
    return _fewest(nodes, takes, count)


def _on_few(free: list[int], amount: int, count: int) -> tuple[int, ...] | None:
    """The same for one kind of resource on few nodes that differ in nothing else, without numpy."""
    best = min([(has, node) for node, has in enumerate(free) if has >= amount * count], default=None)
    if best is not None:
        return (best[1],) * count
    takes = [has // amount if has > 0 else 0 for has in free]
    return _fewest_of_few(takes, count) if count > 1 and sum(takes) >= count else None


def _tightest(free: IntArray, fits: BoolArray, role: RoleShape) -> int | None:
    """Best fit: of the nodes that fit, the one with least free of what the role mostly asks for."""
    where = fits.nonzero()[0]
    if not len(where):
        return None
    best: int = where.item(free[_mostly(role)][where].argmin())
    return best


def _fewest(nodes: Nodes, takes: npt.NDArray[np.int64], count: int) -> tuple[int, ...]:
    """Fewest nodes, in the smallest topology domain that takes them all, or over several where none does."""
    if len(takes) <= FEW_NODES and nodes.domains == 1:
        return _fewest_of_few(takes.tolist(), count)
    candidates = np.flatnonzero(takes)
    if nodes.domains > 1:
        per_domain = np.bincount(nodes.domain[candidates], weights=takes[candidates])
        enough = np.flatnonzero(per_domain >= count)
        if len(enough):
            smallest = enough[per_domain[enough].argmin()]
            candidates = candidates[nodes.domain[candidates] == smallest]
    most_first = np.argsort(
        nodes.domain[candidates] - takes[candidates].astype(np.int64) * nodes.domains, kind="stable"
    )
    order = candidates[most_first]
    filled = np.cumsum(takes[order])
    last = int(np.searchsorted(filled, count))
    counts = takes[order[: last + 1]].copy()
    counts[last] -= filled[last] - count
    return tuple(np.sort(np.repeat(order[: last + 1], counts)).tolist())


def _fewest_of_few(takes: list[int], count: int) -> tuple[int, ...]:
    """The same in one topology domain, without numpy, which takes several times as long for few nodes."""
    found: list[int] = []
    for node in sorted(range(len(takes)), key=takes.__getitem__, reverse=True):
        found += [node] * min(takes[node], count - len(found))
        if len(found) == count:
            break
    return tuple(sorted(found))


def _together(nodes: Nodes, free: IntArray, shape: Shape, counts: tuple[int, ...]) -> Placement | None:
    """All replicas of all roles on one node, unless a role wants to be apart from another."""
    if any(role.apart for role in shape.roles):
        return None
    demand = sum(role.vector.astype(np.int64) * count for role, count in zip(shape.roles, counts, strict=True))
    fits = np.all(free >= np.asarray(demand)[:, None], axis=0)
    for role, count in zip(shape.roles, counts, strict=True):
        if count:
            fits = fits & nodes.mask(role.constraint)
    if not fits.any():
        return None
    node = _tightest(free, fits, shape.roles[shape.order[-1]])
    assert node is not None
    return Placement(tuple((node,) * count for count in counts))


def _role_by_role(nodes: Nodes, free: IntArray, shape: Shape, counts: tuple[int, ...]) -> Placement | None:
    """Over several nodes, in start order. Each role goes beside the roles that it exchanges data with."""
    gang = _Gang(nodes, free, shape)
    chosen: list[tuple[int, ...]] = [()] * len(shape.roles)
    for number in shape.order:
        where = gang.place_role(number, counts[number])
        if where is None:
            return None
        chosen[number] = where
    return Placement(tuple(chosen))


class _Gang:
    """Where the replicas of one job are so far, and what is left of the nodes."""

    __slots__ = ("in_domain", "left", "nodes", "placed", "shape")

    def __init__(self, nodes: Nodes, free: IntArray, shape: Shape) -> None:
        self.nodes, self.shape = nodes, shape
        self.left = free.copy()
        self.placed: FloatArray = np.zeros((len(shape.roles), len(nodes)))
        """(roles, nodes): replicas."""
        self.in_domain: FloatArray = np.zeros(nodes.domains)
        """By topology domain: replicas of any role."""

    def place_role(self, number: int, count: int) -> tuple[int, ...] | None:
        """Node by node, the most wished first; None where they do not all fit."""
        role = self.shape.roles[number]
        takes = room(self.nodes, self.left, role)
        if int(takes.sum()) < count:
            return None
        suits = np.flatnonzero(takes)
        takes, domain, scarce = takes[suits], self.nodes.domain[suits], self.left[_mostly(role), suits]
        wishes, one_each = self._wishes(role)[suits], number in role.apart
        where: list[int] = []
        while len(where) < count:
            best = _most_wished(np.where(takes > 0, wishes + SAME_DOMAIN * self.in_domain[domain], -np.inf), scarce)
            node, more = int(suits[best]), 1 if one_each else min(int(takes[best]), count - len(where))
            where += [node] * more
            self.left[:, node] -= more * role.vector
            self.placed[number, node] += more
            self.in_domain[domain[best]] += more
            takes[best] -= more
            scarce[best] = self.left[_mostly(role), node]
            if one_each:
                wishes[best] -= SAME_NODE * more
        return tuple(where)

    def _wishes(self, role: RoleShape) -> FloatArray:
        """By node: more where roles are that this one exchanges data with, less where it should be apart."""
        near, apart = self.placed[list(role.near)].sum(axis=0), self.placed[list(role.apart)].sum(axis=0)
        wishes: FloatArray = SAME_NODE * (near - apart)
        return wishes


def _most_wished(wishes: FloatArray, scarce: IntArray) -> int:
    """The largest wish; of equals the one with the smallest amount free."""
    return int(np.where(wishes >= wishes.max() - 1e-9, scarce, LARGEST).argmin())


def _mostly(role: RoleShape) -> int:
    """The resource kind that best fit compares."""
    return role.asks[-1][0] if role.asks else 0
