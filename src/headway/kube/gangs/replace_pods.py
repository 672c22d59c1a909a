"""Other nodes for pods of a start, and a booking that matches the pods: both before a gang is bound. Pure.

Example: a native pod took the last cpu of a node in the moment in which one of ours was bound there. The kubelet turns
ours away (OutOfcpu). The other pods of the gang stay, and this one is made again on another node with room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headway.core.board import Board
from headway.core.node import IntArray, Nodes
from headway.core.placement import Placement, Shape
from headway.core.states import State
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.intent import Allocation, allocation_of, placement_of
from headway.kube.gangs.messages import HeldMore, NodesFound, NoNodes
from headway.kube.gangs.model import ApiRefusal
from headway.kube.pods.placement_rules import Neighbours
from headway.kube.pods.placing import NoNodeLeft, Placing
from headway.kube.pods.replica import Replica
from headway.kube.values import replace

FEWEST_TRIES = 4
"""So many pods of one start may be made elsewhere, or a quarter of the gang if that is more."""
HALF_MADE = "its gang was half made while Headway was away, and there is no room for the rest"


@dataclass(frozen=True, slots=True)
class Room:
    """The nodes, what is free on them, and who is there."""

    nodes: Nodes
    free: IntArray
    shape: Shape
    neighbours: Neighbours

    @classmethod
    def of(cls, board: Board, gang: Gang, neighbours: Neighbours) -> Room:
        row = board.row(gang.job.id)
        assert row is not None, f"{gang.job.id} is not on the board"
        return cls(board.nodes, board.free(), board.table.shape_at(row), neighbours)


def wants_nodes(gang: Gang, gone: frozenset[str]) -> bool:
    """Whether some of its replicas need a node, so that `find_nodes` is to be asked."""
    return bool(gang.start.lacking) or bool(_turned_away(gang, gone))


def find_nodes(gang: Gang, room: Room, gone: frozenset[str], now: float) -> NodesFound | NoNodes | None:
    if gang.start.lacking:
        return _fill(gang, room, now)
    return _elsewhere(gang, room, gone)


def _turned_away(gang: Gang, gone: frozenset[str]) -> list[Replica]:
    intent = gang.wanted
    if intent.state is not State.STARTING or intent.target is None:
        return []
    mine = [pod for pod in gang.pods.values() if pod.attempt == intent.attempt and not pod.deleting]
    away = [pod for pod in mine if pod.turned_away or (pod.node in gone and not pod.over)]
    return [pod for pod in away if pod.uid not in gang.start.excused]


def _elsewhere(gang: Gang, room: Room, gone: frozenset[str]) -> NodesFound | None:
    """Each pod that was turned away gets another node; None if there is no room for one, or too many were."""
    strays, target = _turned_away(gang, gone), gang.wanted.target
    assert target is not None
    size = sum(len(share.nodes) for share in target)
    if not strays or len(gang.start.excused) + len(strays) > max(FEWEST_TRIES, size // 4):
        return None
    avoided = gang.start.avoided | {stray.node for stray in strays}
    try:
        found = _placed(gang, placement_of(target, gang.job, room.nodes), strays, avoided, room)
    except NoNodeLeft:
        return None
    return NodesFound(_named(gang, found, room), frozenset(stray.uid for stray in strays), avoided)


def _placed(
    gang: Gang, placement: Placement, strays: list[Replica], avoided: frozenset[str], room: Room
) -> Placement:  # fmt: skip
    """The placement with other nodes for these. Raises `NoNodeLeft`."""
    free, nodes = room.free.copy(), room.nodes
    for name in avoided & nodes.index.keys():
        free[:, nodes.index[name]] = 0
    for stray in strays:
        number, old = _number(gang, stray.role), nodes.index.get(stray.node, -1)
        if old not in placement.nodes[number]:
            raise NoNodeLeft(f"{stray.name} is not where it was planned")
        alone = _alone(placement, number, (old,))
        (found,) = Placing(nodes, free, room.neighbours).place(alone, room.shape, gang.rules).nodes[number]
        free[:, found] -= placement.vector(room.shape, number)
        where = list(placement.nodes[number])
        where[where.index(old)] = found
        placement = placement.with_role(number, tuple(where))
    return placement


def _fill(gang: Gang, room: Room, now: float) -> NodesFound | NoNodes:
    """Replicas that an earlier process left without a pod get a node: one of the gang's own first, if it fits."""
    target = gang.wanted.target
    if target is None:
        return NoNodes(HALF_MADE, now)
    there = placement_of(target, gang.job, room.nodes)
    own = Counter(node for nodes in there.nodes for node in nodes).most_common(1)
    near = own[0][0] if own else 0
    free = room.free.copy()
    for name in gang.start.avoided & room.nodes.index.keys():
        free[:, room.nodes.index[name]] = 0
    rest = Placement(tuple((near,) * gang.start.lacking.get(role.name, 0) for role in gang.job.roles), there.requests)
    try:
        found = Placing(room.nodes, free, room.neighbours).place(rest, room.shape, gang.rules)
    except NoNodeLeft:
        return NoNodes(HALF_MADE, now)
    whole = tuple((*old, *new) for old, new in zip(there.nodes, found.nodes, strict=True))
    return NodesFound(_named(gang, Placement(whole, there.requests), room))


def held_more(
    gang: Gang, held: Mapping[str, Mapping[str, int]], booked: Mapping[str, Mapping[str, int]]
) -> HeldMore | None:
    """The booking with what the made pods of a starting job hold, if that is more than was booked; else None.

    `held` and `booked` are by pod. The check between create and bind: where a node has no room for it, the gang is not
    bound, and starts again with the new booking.
    """
    more: dict[str, dict[str, int]] = {}
    for uid, amounts in held.items():
        pod, known = gang.pods.get(uid), booked.get(uid, {})
        if pod is None or pod.bound or pod.over:
            continue
        for kind, amount in amounts.items():
            if kind in known and amount > known[kind]:
                of_role = more.setdefault(pod.role, {})
                of_role[kind] = max(of_role.get(kind, 0), amount - known[kind])
    if not more:
        return None
    roles = []
    for one in gang.job.roles:
        beside = dict(one.overhead)
        for kind, amount in more.get(one.name, {}).items():
            beside[kind] = beside.get(kind, 0) + amount
        roles.append(replace(one, overhead=tuple(sorted(beside.items()))))
    return HeldMore(replace(gang.job, roles=tuple(roles)), None)


def too_full(gang: Gang, nodes: Nodes, free: IntArray) -> ApiRefusal | None:
    """Why a node of its target cannot hold what its pods hold; None if all can."""
    for name in {name for share in gang.wanted.target or () for name in share.nodes}:
        node = nodes.index.get(name)
        if node is not None and np.any(free[:, node] < 0):
            kind = nodes.kinds[int(np.argmin(free[:, node]))]
            why = f"its pods hold more {kind} than was booked, and node {name} has no room for that"
            return ApiRefusal(why)
    return None


def _number(gang: Gang, role: str) -> int:
    return next(number for number, one in enumerate(gang.job.roles) if one.name == role)


def _alone(placement: Placement, role: int, nodes: tuple[int, ...]) -> Placement:
    empty: tuple[tuple[int, ...], ...] = tuple(() for _ in placement.nodes)
    return Placement(empty, placement.requests).with_role(role, nodes)


def _named(gang: Gang, placement: Placement, room: Room) -> Allocation:
    return allocation_of(placement, gang.job, room.shape, room.nodes)
