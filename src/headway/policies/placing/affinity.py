"""Placing by affinity: roles that exchange data go next to each other.

`place_near` puts a gang on one node, else on the fewest, servers and workers in equal parts on each. `place_in_buckets`
groups replicas first, and places each group.

Buckets, for example two servers and four workers: replicas are taken in start order, servers first. Each joins the
bucket it has most affinity to: one point for every replica there that it exchanges data with, minus one for every
replica it should be apart from. On a tie it joins the smaller bucket; where every affinity is negative it opens a new
one. That gives two buckets of one server and two workers. Buckets are then placed, the larger first. A replica goes
where most of its bucket is or still fits, away from replicas it should be apart from; on a tie beside partners, and
else where it leaves least free. The whole gang is placed, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headway.core.estimates import Counts
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, Shape, take
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place, place_any_size
from headway.policies.placing.room import fits_on
from headway.policies.placing.spread import place_evenly

SERVER = "ps"


@dataclass(slots=True)
class Bucket:
    """Replicas that belong together: role numbers in the order in which they joined."""

    roles: list[int] = field(default_factory=list)

    def size_score(self, shape: Shape) -> tuple[int, int]:
        """Of two buckets with equal affinity the one that asks for less takes the replica."""
        return -sum(int(shape.roles[role].vector.sum()) for role in self.roles), -len(self.roles)


def buckets_of(shape: Shape, counts: Counts) -> list[Bucket]:
    """In the order in which they are placed: the larger first, then the older."""
    made: list[Bucket] = []
    for role in shape.order:
        for _ in range(counts[role]):
            best = max(
                range(len(made)),
                key=lambda number: (_affinity(shape, role, made[number].roles), made[number].size_score(shape)),
                default=None,
            )
            if best is None or _affinity(shape, role, made[best].roles) < 0:
                made.append(Bucket([role]))
            else:
                made[best].roles.append(role)
    return sorted(made, key=lambda bucket: -len(bucket.roles))


def place_in_buckets(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Counts) -> Placement | None:
    """A placement of the whole gang, or None. Where buckets find none, any placement will do."""
    if shape.missing:
        return None
    if len(shape.roles) == 1:
        return place(snapshot, free, shape, counts)
    left, chosen = free.copy(), [list[int]() for _ in shape.roles]
    for bucket in buckets_of(shape, counts):
        here = np.zeros(len(snapshot.nodes))
        for done, role in enumerate(bucket.roles):
            node = _node(snapshot, left, shape, chosen, (here, bucket.roles[done:]))
            if node is None:
                return place(snapshot, free, shape, counts)
            chosen[role].append(node)
            here[node] += 1
            left[:, node] -= shape.roles[role].vector
    return Placement(tuple(tuple(nodes) for nodes in chosen))


def place_any_in_buckets(snapshot: Snapshot, free: IntArray, row: int) -> Placement | None:
    """In buckets, at the largest size that fits and that the job allows."""
    return place_any_size(snapshot, free, row, place_in_buckets)


def place_any_by_role(snapshot: Snapshot, free: IntArray, row: int) -> Placement | None:
    """The same without affinity: each role by itself on few nodes, wherever the others are."""
    return place_any_size(snapshot, free, row, place_by_role)


def place_by_role(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Counts) -> Placement | None:
    """One size without affinity."""
    left, chosen = free.copy(), dict[int, tuple[int, ...]]()
    for number in shape.order:
        role = shape.roles[number]
        alone = Shape((role,), (0,), (counts[number],), (role.min,), shape.missing, elastic=False)
        placement = place(snapshot, left, alone)
        if placement is None:
            return None
        take(left, placement, alone)
        chosen[number] = placement.nodes[0]
    return Placement(tuple(chosen[number] for number in range(len(shape.roles))))


def _affinity(shape: Shape, role: int, others: list[int]) -> int:
    return sum(_affine(shape, role, other) - _apart(shape, role, other) for other in others)


def _affine(shape: Shape, one: int, other: int) -> bool:
    return other in shape.roles[one].near or one in shape.roles[other].near


def _apart(shape: Shape, one: int, other: int) -> bool:
    """As the job says. Servers of one job also keep apart, so that each has workers beside it."""
    if one == other and shape.roles[one].name == SERVER:
        return True
    return other in shape.roles[one].apart or one in shape.roles[other].apart


def _node(
    snapshot: Snapshot, free: IntArray, shape: Shape, chosen: list[list[int]], bucket: tuple[FloatArray, list[int]]
) -> int | None:
    """The best node for the first of the roles that are left of a bucket. `bucket`: its replicas on each node, and what
    is left.
    """
    here, waiting = bucket
    role = shape.roles[waiting[0]]
    fits = fits_on(snapshot.nodes, free, role)
    if not fits.any():
        return None
    partners, rivals = np.zeros(len(fits)), np.zeros(len(fits))
    for other, nodes in enumerate(chosen):
        for node in nodes:
            partners[node] += _affine(shape, waiting[0], other)
            rivals[node] += _apart(shape, waiting[0], other)
    score = here - rivals + _fit_together(snapshot, free, shape, waiting)
    candidates = fits & (score >= score[fits].max() - 1e-9)
    candidates &= partners >= partners[candidates].max() - 1e-9
    kind = role.asks[-1][0] if role.asks else 0
    return int(np.flatnonzero(candidates)[free[kind][candidates].argmin()])


def _fit_together(snapshot: Snapshot, free: IntArray, shape: Shape, roles: list[int]) -> FloatArray:
    """By node: how many of these replicas it takes, in their order."""
    left, total = free.copy(), np.zeros(free.shape[1])
    for number in dict.fromkeys(roles):
        role, takes = shape.roles[number], np.full(free.shape[1], roles.count(number))
        for kind, amount in role.asks:
            takes = np.minimum(takes, left[kind] // amount)
        takes = np.where(snapshot.nodes.mask(role.constraint), np.maximum(takes, 0), 0)
        left = left - np.outer(role.vector, takes).astype(np.int32)
        total += takes
    return total


def place_near(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Counts, affinity: bool) -> Placement | None:
    """Where this many replicas per role go; None where they do not fit. Without affinity each role by itself."""
    if not affinity:
        return place_by_role(snapshot, free, shape, counts)
    placement = place(snapshot, free, shape, counts)
    if placement is None or len(shape.roles) == 1 or len(placement.used_nodes()) == 1:
        return placement
    spread = place_evenly(snapshot, free, shape, counts)
    return spread if spread is not None and _as_good(spread, placement) else placement


def _as_good(one: Placement, other: Placement) -> bool:
    """Fewer nodes; on as many nodes, at least as many pairs of different roles that share one."""
    return (-len(one.used_nodes()), _pairs(one)) >= (-len(other.used_nodes()), _pairs(other))


def _pairs(placement: Placement) -> int:
    roles = placement.nodes
    return sum(
        roles[other].count(node) for number, nodes in enumerate(roles) for node in nodes for other in range(number)
    )
