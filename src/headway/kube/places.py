"""Between allocations, which name nodes, and placements, which number them. Pure."""

from __future__ import annotations

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.placement import Placement, Vector
from headway.core.shape import Shape
from headway.kube.job.intent import Allocation, RoleAllocation


def allocation_of(placement: Placement, job: Job, shape: Shape, nodes: Nodes) -> Allocation:
    """Only kinds that the role asks for: a pod without a memory limit must not be given one by a resize."""
    shares = []
    for number, role in enumerate(job.roles):
        vector = placement.vector(shape, number)
        amounts = tuple(
            (kind, int(vector[nodes.kinds.index(kind)]) if kind in nodes.kinds else amount)
            for kind, amount in role.request
        )
        names = tuple(nodes.nodes[node].name for node in placement.nodes[number])
        shares.append(RoleAllocation(role.name, names, amounts))
    return tuple(shares)


def placement_of(allocation: Allocation, job: Job, nodes: Nodes) -> Placement:
    """The inverse. A role that the allocation does not know has no replicas."""
    shares = {share.role: share for share in allocation}
    where: list[tuple[int, ...]] = []
    requests: list[Vector | None] = []
    for role in job.roles:
        share = shares.get(role.name, RoleAllocation(role.name, (), role.request))
        where.append(tuple(nodes.index[name] for name in share.nodes if name in nodes.index))
        if share.amounts == role.request:
            requests.append(None)
            continue
        known = tuple((kind, amount) for kind, amount in share.amounts if kind in nodes.kinds)
        vector = nodes.vector(known)
        assert vector is not None
        requests.append(tuple(int(amount) for amount in vector))
    return Placement(tuple(where), tuple(requests) if any(requests) else None)
