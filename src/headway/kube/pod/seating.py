"""Puts the replicas of a planned placement on nodes that their neighbours allow. Pure.

Plans know capacity, labels and taints. Whether a pod may be near other pods depends on each of them, also on those of
its own gang. So each replica is tried on its planned node first, then on the others that have room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.node import IntArray, Nodes
from headway.core.placement import Placement, RoleShape, Shape
from headway.kube.pod.constraints import Demands
from headway.kube.pod.neighbours import Guest, Neighbours


class Unseated(ValueError):  # noqa: N818  it names what the gang is
    """No node is left for a replica, and why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What the pods of one role demand."""

    guest: Guest = field(default_factory=Guest)
    demands: Demands = field(default_factory=Demands)


@dataclass(slots=True)
class Seating:
    """`free` is what this placement may take: what is free and what was planned for it."""

    nodes: Nodes
    free: IntArray
    neighbours: Neighbours
    _tried: list[str] = field(default_factory=list)

    def place(self, placement: Placement, shape: Shape, seats: Mapping[str, Seat]) -> Placement:
        """The placement, or one that differs where neighbours do not allow it. Raises `Unseated` if there is none."""
        free = self.free.copy()
        found: list[tuple[int, ...]] = [() for _ in placement.nodes]
        try:
            for number in shape.order:
                role = shape.roles[number]
                vector = placement.vector(shape, number)
                chosen = []
                for planned in placement.nodes[number]:
                    node = self._node_for(planned, role, vector, free, seats.get(role.name, Seat()))
                    free[:, node] -= vector
                    chosen.append(node)
                found[number] = tuple(chosen)
        finally:
            for uid in self._tried:
                self.neighbours.drop(uid)
            self._tried.clear()
        return Placement(tuple(found), placement.requests)

    def _node_for(self, planned: int, role: RoleShape, vector: IntArray, free: IntArray, seat: Seat) -> int:
        question = self.neighbours.ask(seat.guest, seat.demands)
        fits = self.nodes.mask(role.constraint) & (free >= vector[:, None])[vector > 0].all(axis=0)
        others = np.flatnonzero(fits)
        candidates = [planned, *others.tolist()] if fits[planned] else others.tolist()
        why = ""
        for node in candidates:
            name = self.nodes.nodes[node].name
            why = question.refusal(name)
            if not why:
                uid = f"seat-{len(self._tried)}"
                self._tried.append(uid)
                self.neighbours.put(uid, name, seat.guest)
                return int(node)
        last = f"; the last one {why}" if why else ""
        raise Unseated(f"None of {len(others)} nodes with room takes a replica of role {role.name!r}{last}.")
