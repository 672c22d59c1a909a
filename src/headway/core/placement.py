"""What placing a job depends on (its shape), and where its replicas are (its placement).

Jobs that are alike share one shape: a trace of a hundred thousand jobs has some ten shapes. A policy first asks which
*shapes* fit at all: on a full cluster the answer is none, and the cycle is done.

The order of nodes inside a role means nothing. When a cluster gets a new placement, it keeps the replicas that may
stay and starts or ends the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.job import Amounts, Job, Role, start_order
from headway.core.node import Constraint, IntArray, Nodes
from headway.core.quantity import CPU, MEMORY
from headway.core.states import State

ShapeKey = tuple[tuple[object, ...], ...]
Vector = tuple[int, ...]
Spots = tuple[tuple[int, int], ...]
"""Nodes, each with the number of replicas there."""
FEW = 32
"""Up to this many replicas are counted one by one."""
MANY = 64
"""More nodes than this of one role are written at once; fewer, one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class RoleShape:
    """What placing the replicas of one role depends on."""

    name: str
    vector: IntArray
    """What one replica holds, in the order of the nodes' kinds: its request and its overhead."""
    asks: tuple[tuple[int, int], ...]
    """The same without zeros, as (number of the kind, amount). Fit tests loop over these."""
    replicas: int
    min: int
    max: int
    constraint: Constraint
    near: tuple[int, ...]
    """Indices of the roles that these replicas exchange data with."""
    apart: tuple[int, ...]
    overhead: tuple[tuple[int, int], ...] = ()
    """The part of `asks` that is no request. A resize does not change it."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What placing a job depends on."""

    roles: tuple[RoleShape, ...]
    order: tuple[int, ...]
    """Role indices in the order in which they are placed and started."""
    counts: tuple[int, ...]
    """Requested replicas per role."""
    min: tuple[int, ...]
    missing: str
    """A resource kind that the job requests and that no node has; empty where there is none."""
    elastic: bool

    def width(self) -> int:
        return sum(self.counts)


def shape_key(job: Job) -> ShapeKey:
    """Jobs with equal keys have the same shape."""
    return tuple(
        (
            role.name, role.replicas, role.min, role.max, role.request,
            role.selector, role.tolerates, role.accelerator, role.affinity, role.overhead,
            role.after, role.near, role.apart, role.unstated,
        )
        for role in job.roles
    )  # fmt: skip


def shape_of(job: Job, nodes: Nodes) -> Shape:
    numbers = {role.name: number for number, role in enumerate(job.roles)}
    roles = []
    missing = ""
    for role in job.roles:
        missing = missing or _missing(role.named, nodes) or _missing(role.overhead, nodes)
        vector, beside = _known(with_memory(role, nodes), nodes), _known(role.overhead, nodes)
        vector += beside
        vector.flags.writeable = False
        roles.append(
            RoleShape(
                role.name, vector, tuple((i, int(a)) for i, a in enumerate(vector) if a),
                role.replicas, role.min, role.max, nodes.one(Constraint.of(role)),
                tuple(numbers[name] for name in role.near if name in numbers),
                tuple(numbers[name] for name in role.apart if name in numbers),
                tuple((i, int(a)) for i, a in enumerate(beside) if a),
            )
        )  # fmt: skip
    return Shape(
        tuple(roles), start_order(job.roles), tuple(r.replicas for r in roles), tuple(r.min for r in roles),
        missing, any(r.max > r.min for r in roles),
    )  # fmt: skip


def with_memory(role: Role, nodes: Nodes) -> Amounts:
    """Its request; where its user names nothing, with as much memory as goes with that cpu on these nodes."""
    if not role.unstated or not {CPU, MEMORY} <= set(nodes.kinds):
        return role.request
    whole = dict(zip(nodes.kinds, nodes.total().tolist(), strict=True))
    share = role.amount(CPU) / max(whole[CPU], 1.0)
    return tuple(sorted({**dict(role.request), MEMORY: int(whole[MEMORY] * min(share, 1.0))}.items()))


def _known(amounts: Amounts, nodes: Nodes) -> IntArray:
    vector = nodes.vector(tuple((kind, amount) for kind, amount in amounts if kind in nodes.kinds))
    assert vector is not None
    return vector


def _missing(request: Amounts, nodes: Nodes) -> str:
    return next((kind for kind, amount in request if amount and kind not in nodes.kinds), "")


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
            spots = (counted(nodes[0]),) if len(nodes) == 1 else tuple(counted(role) for role in nodes)
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
            for node, count in counted(role):
                yield node, count, vector


def counted(role: tuple[int, ...]) -> Spots:
    """The nodes of these replicas, in the order of the first on each, and how many are there."""
    if not role:
        return ()
    first = role[0]
    if len(role) == 1 or role.count(first) == len(role):
        return ((first, len(role)),)
    if len(role) > FEW:
        return tuple(Counter(role).items())
    return tuple([(node, role.count(node)) for node in dict.fromkeys(role)])


def beyond(role: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas that are in `role` and not in `before`, by their nodes; node by node."""
    had = dict(counted(before))
    return tuple([node for node, count in counted(role) for _ in range(count - had.get(node, 0))])


def only_role(placement: Placement, role: int, nodes: tuple[int, ...]) -> Placement:
    """The same placement with the replicas of one role only, on these nodes."""
    empty: tuple[tuple[int, ...], ...] = tuple(() for _ in placement.nodes)
    return Placement(empty, placement.requests).with_role(role, nodes)


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
            signed = sign * amount
            for node, count in spots:  # plain numbers: adding to one of numpy's takes twice as long
                free[kind, node] = free.item(kind, node) + signed * count


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
        both.append(tuple(sorted((*one, *beyond(other, one)))))
    return (Placement(tuple(both), first.requests),)


def resized(
    placement: Placement, shape: Shape, role: int, kinds: tuple[str, ...], amounts: Mapping[str, int]
) -> Placement:
    """The same replicas, but each replica of this role gets these amounts. It also holds its overhead."""
    vector = [int(amount) for amount in placement.vector(shape, role)]
    beside = dict(shape.roles[role].overhead)
    for kind, amount in amounts.items():
        if kind in kinds:
            number = kinds.index(kind)
            vector[number] = amount + beside.get(number, 0)
    return placement.with_request(role, tuple(vector))


def holds(state: State, source: Placement | None, towards: Placement | None, shape: Shape) -> tuple[Placement, ...]:
    """What a job in this state holds: both ends of a move, the larger end of a change of size."""
    if source is None:
        return () if towards is None else (towards,)
    if towards is None:
        return (source,)
    return union(source, towards, shape) if state in (State.SCALING, State.RESIZING) else (source, towards)
