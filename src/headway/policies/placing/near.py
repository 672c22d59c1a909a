"""Placement by affinity: a whole gang on one node, else on the fewest, servers and workers in equal parts on each."""

from __future__ import annotations

from headway.core.estimates import Counts
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.snapshot import Snapshot
from headway.policies.placing.affinity import place_by_role
from headway.policies.placing.even import place_evenly
from headway.policies.placing.pack import place
from headway.policies.value.terms import Terms


def place_near(snapshot: Snapshot, free: IntArray, shape: Shape, counts: Counts, terms: Terms) -> Placement | None:
    """Where so many replicas per role go; None where they do not fit. Without affinity every role for itself."""
    if not terms.affinity:
        return place_by_role(snapshot, free, shape, counts)
    placement = place(snapshot, free, shape, counts)
    if placement is None or len(shape.roles) == 1 or len(placement.used_nodes()) == 1:
        return placement
    spread = place_evenly(snapshot, free, shape, counts)
    return spread if spread is not None and _as_good(spread, placement) else placement


def _as_good(one: Placement, other: Placement) -> bool:
    """Fewer nodes; on as many, more pairs of different roles that share one, or as many."""
    return (-len(one.used_nodes()), _pairs(one)) >= (-len(other.used_nodes()), _pairs(other))


def _pairs(placement: Placement) -> int:
    roles = placement.nodes
    return sum(
        roles[other].count(node) for number, nodes in enumerate(roles) for node in nodes for other in range(number)
    )
