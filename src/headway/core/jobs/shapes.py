"""The shapes of all jobs of a cluster, and what follows from them and the nodes. The job table makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headway.core.node import FloatArray, Nodes
from headway.core.placement import RoleShape, Shape

WIDEST = 1e3
"""The share of a shape that asks for a resource that no node has."""


class Shapes(tuple[Shape, ...]):  # noqa: SLOT001  a tuple can have no slots of its own
    """The shapes of a cluster's jobs by number, and what follows from them and the nodes."""

    share: FloatArray
    """By shape: share of the cluster at the asked-for size, the largest of any kind; above 0, at most `WIDEST`."""
    only_role: RoleShape | None
    """The one role that all shapes have, if every replica could take the place of every other; else None."""
    slots: int
    """How many replicas of that role the empty nodes take; 0 where there is none."""

    @classmethod
    def of(cls, shapes: Iterable[Shape], nodes: Nodes) -> Shapes:
        made, whole = cls(shapes), nodes.total()
        made.share = np.array([_share(shape, whole) for shape in made])
        made._set_only_role(_only_role(made), nodes)
        return made

    def on(self, nodes: Nodes) -> Shapes:
        """The same shapes on nodes with the same kinds and other amounts."""
        made, whole = Shapes(self), nodes.total()
        made.share = np.array([_share(shape, whole) for shape in made])
        made._set_only_role(self.only_role, nodes)
        return made

    def and_one(self, shape: Shape, nodes: Nodes) -> Shapes:
        """Costs no more for many shapes than for few."""
        made = Shapes((*self, shape))
        made.share = np.append(self.share, _share(shape, nodes.total()))
        first, role = self.only_role, _only_role([shape])
        if self:
            role = first if first and role and _alike(first, role) else None
        made._set_only_role(role, nodes)
        return made

    def _set_only_role(self, role: RoleShape | None, nodes: Nodes) -> None:
        self.only_role = role
        self.slots = nodes.slots(role.asks, role.constraint) if role else 0


def dominant_share(amounts: FloatArray, whole: FloatArray) -> float:
    """The largest share of any kind; infinite where something is asked for that is not there."""
    return float(np.divide(amounts, whole, out=np.where(amounts > 0, np.inf, 0.0), where=whole > 0).max(initial=0.0))


def _share(shape: Shape, whole: FloatArray) -> float:
    asked: FloatArray = np.zeros(len(whole))
    for role in shape.roles:
        asked += role.vector.astype(np.float64) * role.replicas
    return min(max(1e-9, dominant_share(asked, whole)), WIDEST)


def _only_role(shapes: Sequence[Shape]) -> RoleShape | None:
    first: RoleShape | None = None
    for shape in shapes:
        if len(shape.roles) != 1 or shape.elastic or shape.missing or not shape.roles[0].asks:
            return None
        first = first or shape.roles[0]
        if not _alike(shape.roles[0], first):
            return None
    return first


def _alike(one: RoleShape, other: RoleShape) -> bool:
    return one.asks == other.asks and one.constraint == other.constraint
