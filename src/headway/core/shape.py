"""The shape of a job: what placing it depends on. Jobs that are alike in this share one shape.

A trace of a hundred thousand jobs has some ten shapes. A policy first asks which *shapes* fit at all: on a full cluster
the answer is none, and the cycle is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.job import Amounts, Job, start_order
from headway.core.node import Constraint, IntArray, Nodes

Key = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RoleShape:
    """What placing the replicas of one role depends on."""

    name: str
    vector: IntArray
    """What one replica requests, in the order of the nodes' kinds."""
    asks: tuple[tuple[int, int], ...]
    """The same without zeros, as (number of the kind, amount). Fit tests loop over these."""
    replicas: int
    least: int
    most: int
    constraint: Constraint
    near: tuple[int, ...]
    """Indices of the roles that these replicas exchange data with."""
    apart: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What placing a job depends on."""

    roles: tuple[RoleShape, ...]
    order: tuple[int, ...]
    """Role indices in the order in which they are placed and started."""
    counts: tuple[int, ...]
    """Requested replicas per role."""
    least: tuple[int, ...]
    missing: str
    """A resource kind that the job requests and that no node has; empty where there is none."""
    elastic: bool

    def width(self) -> int:
        return sum(self.counts)


def key(job: Job) -> Key:
    """Jobs with equal keys have the same shape."""
    return tuple(
        (
            role.name, role.replicas, role.least, role.most, role.request,
            role.selector, role.tolerates, role.accelerator, role.after, role.near, role.apart,
        )
        for role in job.roles
    )  # fmt: skip


def shape_of(job: Job, nodes: Nodes) -> Shape:
    numbers = {role.name: number for number, role in enumerate(job.roles)}
    roles = []
    missing = ""
    for role in job.roles:
        missing = missing or _missing(role.request, nodes)
        known: Amounts = tuple((kind, amount) for kind, amount in role.request if kind in nodes.kinds)
        vector = nodes.vector(known)
        assert vector is not None
        vector.flags.writeable = False
        roles.append(
            RoleShape(
                role.name, vector, tuple((i, int(a)) for i, a in enumerate(vector) if a),
                role.replicas, role.least, role.most, Constraint.of(role),
                tuple(numbers[name] for name in role.near if name in numbers),
                tuple(numbers[name] for name in role.apart if name in numbers),
            )
        )  # fmt: skip
    return Shape(
        tuple(roles), start_order(job.roles), tuple(r.replicas for r in roles), tuple(r.least for r in roles),
        missing, any(r.most > r.least for r in roles),
    )  # fmt: skip


def _missing(request: Amounts, nodes: Nodes) -> str:
    return next((kind for kind, amount in request if amount and kind not in nodes.kinds), "")
