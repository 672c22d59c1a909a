"""Spreading: each replica where fewest are, evenly over few nodes (after Optimus), or on the emptiest nodes first.

With the numbers of servers and workers given, an even spread over few nodes is where they exchange least over the
network. On the emptiest nodes small jobs do not disturb each other, but wide jobs find few whole nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, Shape
from headway.core.plan import Start
from headway.core.quantity import CPU
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place
from headway.policies.placing.room import fits_on, room


def spread_out(snapshot: Snapshot, free: IntArray, shape: Shape, held: FloatArray) -> Placement | None:
    """Replica by replica, each where fewest are; None where they do not all fit. `held`: replicas on each node."""
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


def place_evenly(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Counts) -> Placement | None:
    """Each role evenly over the emptiest nodes, as few as will do; where no even spread fits, any placement."""
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
        per_role = [_even(count, width) for count in counts]
        need = sum(np.outer(role.vector, each) for role, each in zip(shape.roles, per_role, strict=True))
        if np.all(free[:, order[:width]] >= need):
            nodes = order[:width]
            return Placement(tuple(tuple(np.repeat(nodes, each).tolist()) for each in per_role))
    return place(snapshot, free, shape, counts)


def _even(count: int, width: int) -> IntArray:
    """By node: `count` replicas over `width` nodes. The first nodes take one more where it does not come out even."""
    each: IntArray = np.full(width, count // width, np.int32)
    each[: count % width] += 1
    return each


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
