"""On which nodes a running job gains or loses replicas: next to its own first; lonely replicas go first."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.node import IntArray, Nodes
from headway.core.placement import Placement
from headway.core.snapshot import Snapshot

MANY = 64
"""At most this many further replicas are placed at once."""
FEW = 40
"""Up to this many nodes are sorted one by one."""
SOON = 1.0
"""Seconds until the policy looks again at what was given up, if the cluster reports nothing before."""


def may_scale(snapshot: Snapshot, row: int) -> bool:
    return bool(int(snapshot.jobs.can[row]) & Can.SCALE)


def room_for_more(snapshot: Snapshot, free: IntArray, row: int, role: int) -> npt.NDArray[np.int64]:
    """By node: how many more replicas of this role fit, each holding what the present ones hold."""
    shape = snapshot.jobs.shape_at(row)
    vector = snapshot.placements[row].vector(shape, role)
    mask = snapshot.nodes.mask(shape.roles[role].constraint)
    asked = vector > 0
    if not asked.any():
        return np.where(mask, shape.roles[role].max, 0)
    takes = (free[asked].clip(min=0) // vector[asked][:, None]).min(axis=0)
    return np.where(mask, takes, 0)


def grown(snapshot: Snapshot, free: IntArray, row: int, role: int, count: int) -> tuple[int, ...]:
    """The role's nodes with up to `count` replicas, as far as there is room; never fewer than now."""
    placement = snapshot.placements[row]
    nodes, most = list(placement.nodes[role]), snapshot.jobs.shape_at(row).roles[role].max
    takes = room_for_more(snapshot, free, row, role)
    own = np.zeros(len(takes))
    for node in placement.used_nodes():
        own[node] = 2
        own[snapshot.nodes.domain == snapshot.nodes.domain[node]] += 1
    wanted = min(count, most) - len(nodes)
    for node in np.lexsort((-takes, -own)):
        if wanted <= 0 or (not takes[node] and not own[node]):
            break
        more = min(wanted, int(takes[node]))
        nodes.extend([int(node)] * more)
        wanted -= more
    return tuple(nodes)


def shrunk(snapshot: Snapshot, row: int, role: int, count: int) -> tuple[int, ...]:
    """The role's nodes with `count` replicas: those that share a node with most of their gang stay."""
    return leaving_order(snapshot.placements[row], role)[::-1][:count]


def shrink(draft: Draft, row: int, role: int, count: int) -> None:
    draft.scale(row, role, shrunk(draft.snapshot, row, role, count))
    draft.wake(draft.snapshot.now + SOON)


def grow(draft: Draft, row: int, role: int, count: int) -> bool:
    """Returns whether at least one more replica found room."""
    nodes = grown(draft.snapshot, draft.free, row, role, count)
    if len(nodes) <= len(draft.snapshot.placements[row].nodes[role]):
        return False
    draft.scale(row, role, nodes)
    return True


def scale_towards(draft: Draft, row: int, counts: tuple[int, ...], *, up: bool) -> bool:
    """Scales one role of a running job towards these counts, because a plan decides once per job. Returns whether it
    did.
    """
    for role, (now, wanted) in enumerate(zip(draft.snapshot.placements[row].counts, counts, strict=True)):
        if up and wanted > now and grow(draft, row, role, wanted):
            return True
        if not up and wanted < now:
            shrink(draft, row, role, wanted)
            return True
    return False


def leaving_order(now: Placement, role: int) -> tuple[int, ...]:
    """The nodes of a role's replicas, the loneliest first. Another role there outweighs any number of its own."""
    if len(now.nodes) == 1:
        spots = now.spots[0]
        if len(spots) == 1:
            return now.nodes[0]
        order: list[int] = []
        for node, count in sorted(spots, key=lambda spot: (spot[1], -spot[0])):
            order += [node] * count
        return tuple(order)
    beside: Counter[int] = Counter()
    for number, nodes in enumerate(now.nodes):
        for node in nodes:
            beside[node] += 1 if number == role else 1000
    return tuple(sorted(now.nodes[role], key=lambda node: (beside[node], -node)))


def without(now: Placement, role: int, nodes: tuple[int, ...]) -> Placement:
    kept = list(now.nodes[role])
    for node in nodes:
        kept.remove(node)
    return now.with_role(role, tuple(kept))


def next_nodes(
    snapshot: Snapshot, takes: npt.NDArray[np.int64], role: int, now: Placement, affinity: bool, most: int = MANY
) -> tuple[int, ...]:
    """Where further replicas of a role would go, the best node first, as far as there is room: at most 64, or `most`.

    `takes`: how many more each node takes. Nodes with roles that it exchanges data with come first, then nodes with
    most of its own replicas, then nodes of its topology domain, then those with most room.
    """
    wishes: dict[int, float] = {}
    for number, spots in enumerate(now.spots if affinity else ()):
        for node, count in spots:
            wishes[node] = wishes.get(node, 0.0) + count * (1.0 if number == role else 4.0)
    chosen, most = list[int](), min(most, MANY)
    if most <= 0:
        return ()
    for node, many in _most_wished(snapshot.nodes, takes, wishes):
        chosen += [node] * min(many, most - len(chosen))
        if len(chosen) >= most:
            break
    return tuple(chosen)


def _most_wished(
    nodes: Nodes, takes: npt.NDArray[np.int64], wishes: dict[int, float]
) -> list[tuple[int, int]]:  # fmt: skip
    """Nodes that take more and how many, the most wished first."""
    domain = nodes.domain
    if len(takes) <= FEW:
        pairs = [(node, many) for node, many in enumerate(takes.tolist()) if many]
    else:
        fits = takes.nonzero()[0]
        if len(fits) > FEW:
            return _of_many(domain, fits, takes[fits], wishes)
        pairs = list(zip(fits.tolist(), takes[fits].tolist(), strict=True))
    near = {domain.item(node) for node in wishes} if nodes.domains > 1 else set[int]()
    if near:
        best = [(-wishes.get(node, 0.0) - 0.5 * (domain.item(node) in near), -many, node) for node, many in pairs]
    else:
        best = [(-wishes.get(node, 0.0), -many, node) for node, many in pairs]
    return [(node, -many) for _, many, node in sorted(best)]


def _of_many(
    domain: IntArray, fits: npt.NDArray[np.intp], has: npt.NDArray[np.int64], wishes: dict[int, float]
) -> list[tuple[int, int]]:
    """The same with numpy; at most 64 of them."""
    wished = 0.5 * np.isin(domain[fits], domain[list(wishes)])
    for node, weight in wishes.items():
        wished[fits == node] += weight
    places = np.lexsort((-has, -wished))[:MANY]
    return list(zip(fits[places].tolist(), has[places].tolist(), strict=True))
