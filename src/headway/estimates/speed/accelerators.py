"""On which type of accelerator a job trains, or will train.

Example: nodes have T4s and A100s, and a job names neither. Before it has started nobody knows its type, so it is told
what its model shows on all types together. When it reports from four workers on A100s, its type is `a100`. On a cluster
in which its workers fit on one type only, that is its type from the begin.
"""

from __future__ import annotations

import re
from functools import cache

from headway.core.job import Job, Role, computes, worker_role
from headway.core.node import Constraint, Node, Nodes, types_named
from headway.core.placement import Placement
from headway.estimates.models.scaling import RELATIVE_SPEED


def type_at(job: Job, placement: Placement, nodes: Nodes) -> str:
    """The type of all its workers; empty where nodes have none, or where workers are on several."""
    found = {
        nodes.nodes[node].accelerator.lower()
        for role, where in zip(job.roles, placement.nodes, strict=True)
        if computes(role.name)
        for node in where
    }
    return found.pop() if len(found) == 1 else ""


def type_wanted(job: Job, nodes: Nodes) -> str:
    """The type that it names, or on which alone its workers fit; empty where there are several, or none."""
    role = job.roles[worker_role(job.roles)]
    if names_one(role) or not types_of(nodes):
        return role.accelerator.lower()
    constraint = Constraint.of(role)
    known: str | None = nodes.memo.get((type_wanted, role.request, constraint))
    if known is None:
        found = {node.accelerator.lower() for node in nodes.nodes if _fits(role, constraint, node)}
        known = nodes.keep((type_wanted, role.request, constraint), found.pop() if len(found) == 1 else "")
    return known


def types_of(nodes: Nodes) -> tuple[str, ...]:
    """All types that nodes have."""
    known: tuple[str, ...] | None = nodes.memo.get(types_of)
    if known is None:
        known = nodes.keep(types_of, tuple(sorted({node.accelerator.lower() for node in nodes.nodes} - {""})))
    return known


def relative_speed(job: Job, placement: Placement, nodes: Nodes) -> float:
    """Of the slowest worker's type, by what is published; 1 for roles that name their type."""
    types = {
        nodes.nodes[node].accelerator.lower()
        for role, where in zip(job.roles, placement.nodes, strict=True)
        if not names_one(role)
        for node in where
    }
    if len(nodes.types.names) > 1:
        types = {product(kind) for kind in types}
    return min((RELATIVE_SPEED.get(kind, 1.0) for kind in types), default=1.0)


def names_one(role: Role) -> bool:
    """Whether the role names the type of accelerators that it must have, and no other."""
    return bool(role.accelerator) and len(types_named(role.accelerator)) == 1


@cache
def product(kind: str) -> str:
    """The type in the name of a product, as a device or the label of a node has it: `nvidia-a100-sxm4-80gb` is `a100`,
    `rtx a1000` is not.
    """
    words = re.findall("[a-z0-9]+", kind.lower())
    parts = ["".join(words[begin:end]) for begin in range(len(words)) for end in range(begin + 1, len(words) + 1)]
    known = [part for part in parts if part in RELATIVE_SPEED]
    return max(known, key=len, default=kind)


def _fits(role: Role, constraint: Constraint, node: Node) -> bool:
    """Whether the node takes a replica while it is empty. Whether it is ready now does not matter."""
    capacity = dict(node.capacity)
    return not constraint.refusal(node) and all(capacity.get(kind, 0) >= amount for kind, amount in role.request)
