"""Which replicas of a job are where, and what they hold there.

The order of nodes inside a role means nothing. When a cluster gets a new placement, it keeps the replicas that may
stay and starts or ends the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.node import IntArray
from headway.core.shape import Shape
from headway.core.states import State

Vector = tuple[int, ...]
Spots = tuple[tuple[int, int], ...]
"""Nodes, each with the number of replicas there."""
MANY = 64
"""More nodes than this of one role are written at once; fewer, one by one."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The node of each replica of a job, and what the replicas hold."""

    nodes: tuple[tuple[int, ...], ...]
    """Per role, in the job's order: the node of each replica."""
    requests: tuple[Vector | None, ...] | None = None
    """Per role: what one replica holds after a resize; None where it holds what the job requested."""
    _spots: tuple[Spots, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def spots(self) -> tuple[Spots, ...]:
        """Per role: the nodes that it uses, in the order of their first replicas. Counted once."""
        spots = self._spots
        if spots is None:
            nodes = self.nodes
            spots = (_counted(nodes[0]),) if len(nodes) == 1 else tuple(_counted(role) for role in nodes)
            object.__setattr__(self, "_spots", spots)
        return spots

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(len(role) for role in self.nodes)

    def width(self) -> int:
        nodes = self.nodes
        return len(nodes[0]) if len(nodes) == 1 else sum(len(role) for role in nodes)

    def used_nodes(self) -> set[int]:
        return {node for role in self.nodes for node in role}

    def vector(self, shape: Shape, role: int) -> IntArray:
        """What one replica of this role holds."""
        changed = self.requests[role] if self.requests is not None else None
        return shape.roles[role].vector if changed is None else np.array(changed, np.int32)

    def with_role(self, role: int, nodes: tuple[int, ...]) -> Placement:
        return Placement((*self.nodes[:role], nodes, *self.nodes[role + 1 :]), self.requests)

    def with_request(self, role: int, vector: Vector) -> Placement:
        requests = list(self.requests or [None] * len(self.nodes))
        requests[role] = vector
        return Placement(self.nodes, tuple(requests))

    def holdings(self, shape: Shape) -> Iterator[tuple[int, int, IntArray]]:
        """Node, number of replicas there, what each holds."""
        for number, role in enumerate(self.nodes):
            vector = self.vector(shape, number)
            for node, count in _counted(role):
                yield node, count, vector


def _counted(role: tuple[int, ...]) -> Spots:
    if not role:
        return ()
    first = role[0]
    if len(role) == 1 or role.count(first) == len(role):
        return ((first, len(role)),)
    return tuple(Counter(role).items())


def take(free: IntArray, placement: Placement, shape: Shape, sign: int = -1) -> None:
    """Subtracts what a placement holds from free capacity, in place; with sign +1, adds it."""
    requests = placement.requests
    for number, spots in enumerate(placement.spots):
        changed = None if requests is None else requests[number]
        asks: Iterable[tuple[int, int]] = shape.roles[number].asks if changed is None else enumerate(changed)
        if len(spots) > MANY:
            nodes, counts = np.array(spots, np.int32).T
            for kind, amount in asks:
                free[kind, nodes] += (sign * amount) * counts
            continue
        for kind, amount in asks:
            row, signed = free[kind], sign * amount
            for node, count in spots:
                row[node] += signed * count


def union(first: Placement, second: Placement, shape: Shape) -> tuple[Placement, ...]:
    """Placements that together hold the larger of both on every node: for a job on its way from one to the other."""
    if first.requests != second.requests:
        larger = []
        for number in range(len(first.nodes)):
            pair = np.maximum(first.vector(shape, number), second.vector(shape, number))
            larger.append(tuple(int(amount) for amount in pair))
        return (Placement(first.nodes, tuple(larger)),)
    both = []
    for one, other in zip(first.nodes, second.nodes, strict=True):
        both.append(tuple(sorted((Counter(one) | Counter(other)).elements())))
    return (Placement(tuple(both), first.requests),)


def resized(
    placement: Placement, shape: Shape, role: int, kinds: tuple[str, ...], amounts: Mapping[str, int]
) -> Placement:
    """The same replicas, but each replica of this role holds these amounts."""
    vector = [int(amount) for amount in placement.vector(shape, role)]
    for kind, amount in amounts.items():
        if kind in kinds:
            vector[kinds.index(kind)] = amount
    return placement.with_request(role, tuple(vector))


def holds(state: State, source: Placement | None, towards: Placement | None, shape: Shape) -> tuple[Placement, ...]:
    """What a job in this state holds: both ends of a move, the larger end of a change of size."""
    if source is None:
        return () if towards is None else (towards,)
    if towards is None:
        return (source,)
    return union(source, towards, shape) if state in (State.SCALING, State.RESIZING) else (source, towards)
