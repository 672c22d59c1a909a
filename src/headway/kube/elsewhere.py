"""Another node for a pod that its node turned away, and books that match the pods: both before a gang is released.

Example: a native pod took the last cpu of a node in the moment in which one of ours was bound there. The kubelet turns
ours away (OutOfcpu). The other pods of the gang stay, and this one is made again on another node with room.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import numpy as np

from headway.core.placement import Placement
from headway.core.states import State
from headway.kube.job.replica import PodReplica
from headway.kube.pod.neighbours import Neighbours
from headway.kube.pod.seating import Seating, Unseated
from headway.kube.pods_held import OwnPods, booked_for
from headway.kube.reconcile.model import ApiRefusal, View
from headway.kube.tracked import Tracked

log = logging.getLogger("headway.kube")
FEWEST_TRIES = 4
"""So many pods of one start may be made elsewhere, or a quarter of the gang if that is more."""


def find_elsewhere(job: Tracked, view: View, neighbours: Neighbours) -> bool:
    """Gives each pod that was turned away another node; False if there is none to move, or no room for one."""
    intent = view.intent
    strays = [one for one in view.mine() if not one.deleting and one.uid not in job.excused and _is_away(one, view)]
    flight = None if intent.state is not State.STARTING else job.board.flight(job.row)
    if not strays or flight is None or flight.towards is None:
        return False
    gang = sum(len(nodes) for nodes in flight.towards.nodes)
    if len(job.excused) + len(strays) > max(FEWEST_TRIES, gang // 4):
        return False
    avoided = job.avoided | {stray.node for stray in strays}
    try:
        placement = _placed(job, flight.towards, strays, avoided, neighbours)
    except Unseated:
        return False
    job.board.begin(job.row, State.STARTING, placement, intent.since, intent.until)
    job.avoided, job.excused = avoided, job.excused | {stray.uid for stray in strays}
    for stray in strays:
        log.info("job %s: %s is made on another node: %s", job.job.id, stray.name, stray.why or "its node is gone")
    return True


def fill(job: Tracked, neighbours: Neighbours) -> bool:
    """Gives the replicas that an earlier process left without a pod a node: one of the gang's own first, if it fits.

    False if there is no room for them all.
    """
    board, row = job.board, job.row
    flight, shape = board.flight(row), board.table.shape_at(row)
    if flight is None or flight.towards is None:
        return False
    there = flight.towards
    own = Counter(node for nodes in there.nodes for node in nodes).most_common(1)
    near = own[0][0] if own else 0
    counts = [job.lacking.get(role.name, 0) for role in shape.roles]
    rest = Placement(tuple((near,) * count for count in counts), there.requests)
    try:
        found = Seating(board.nodes, board.free(), neighbours).place(rest, shape, job.seats)
    except Unseated:
        return False
    whole = tuple((*old, *new) for old, new in zip(there.nodes, found.nodes, strict=True))
    board.begin(row, board.state(row), Placement(whole, there.requests), flight.since, flight.until)
    return True


def _is_away(replica: PodReplica, view: View) -> bool:
    return replica.turned_away or (replica.node in view.gone and not replica.over)


def _placed(
    job: Tracked, placement: Placement, strays: list[PodReplica], avoided: set[str], neighbours: Neighbours
) -> Placement:
    """The placement with other nodes for these. Raises `Unseated`."""
    board = job.board
    shape, free = board.table.shape_at(job.row), board.free()
    for name in avoided & board.nodes.index.keys():
        free[:, board.nodes.index[name]] = 0
    empty: tuple[tuple[int, ...], ...] = tuple(() for _ in placement.nodes)
    for stray in strays:
        number, old = board.role_number(job.row, stray.role), board.nodes.index.get(stray.node, -1)
        if old not in placement.nodes[number]:
            raise Unseated(f"{stray.name} is not where it was planned")
        lone = Placement(empty, placement.requests).with_role(number, (old,))
        (found,) = Seating(board.nodes, free, neighbours).place(lone, shape, job.seats).nodes[number]
        free[:, found] -= placement.vector(shape, number)
        nodes = list(placement.nodes[number])
        nodes[nodes.index(old)] = found
        placement = placement.with_role(number, tuple(nodes))
    return placement


def rebook(job: Tracked, own: OwnPods, now: float) -> bool:
    """Books what the made pods of a starting job hold, if that is more than was booked; returns whether it is.

    The check between create and bind: where a node has no room for it, the gang is not bound, and starts again with
    the new booking.
    """
    if job.ended is not None or job.state is not State.STARTING:
        return False
    more: dict[str, dict[str, int]] = {}
    for uid, (role, node, held) in own.pods.get(job.meta.uid, {}).items():
        replica = job.replicas.get(uid)
        if replica is not None and not replica.bound and not replica.over:
            booked = booked_for(job, role, node)
            for kind, amount in held.items():
                if booked and kind in booked and amount > booked[kind]:
                    of_role = more.setdefault(role, {})
                    of_role[kind] = max(of_role.get(kind, 0), amount - booked[kind])
    if not more:
        return False
    roles = []
    for one in job.job.roles:
        beside = dict(one.overhead)
        for kind, amount in more.get(one.name, {}).items():
            beside[kind] = beside.get(kind, 0) + amount
        roles.append(replace(one, overhead=tuple(sorted(beside.items()))))
    job.job = replace(job.job, roles=tuple(roles))
    job.board.replace(job.row, job.job, now)
    _refuse_if_too_full(job)
    return True


def _refuse_if_too_full(job: Tracked) -> None:
    flight, free, nodes = job.board.flight(job.row), job.board.free(), job.board.nodes
    towards = () if flight is None or flight.towards is None else flight.towards.nodes
    for node in {node for role in towards for node in role}:
        if np.any(free[:, node] < 0):
            kind = nodes.kinds[int(np.argmin(free[:, node]))]
            why = f"its pods hold more {kind} than was booked, and node {nodes.nodes[node].name} has no room for that"
            job.refusal = ApiRefusal(why)
            return
