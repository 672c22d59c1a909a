"""What is idle while running jobs grow: how many more replicas every node takes, and what a step takes away."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.node import Asks, BoolArray, Constraint
from headway.core.placement import Placement, RoleShape, counted
from headway.policies.placing.add_remove import room_for_more
from headway.policies.placing.room import room
from headway.policies.value.columns import SizeColumns

Rooms = npt.NDArray[np.int64]


class GrowthStep(NamedTuple):
    """One role of one job made larger. The best step compares as the smallest."""

    price: float
    """Minus the gain per share. Where nodes are not chosen yet, no more than it will be."""
    row: int
    role: int
    nodes: tuple[int, ...]
    """The nodes of the replicas that are added; empty where they are not chosen yet."""


class Takes(NamedTuple):
    """How many more replicas that ask for the same every node takes."""

    asks: Asks
    suits: BoolArray
    by_node: npt.NDArray[np.int64]


class IdleRoom:
    """What is free so far, and how many replicas of each request every node still takes."""

    def __init__(self, draft: Draft) -> None:
        self.snapshot = draft.snapshot
        self.free = draft.free.copy()
        self._takes: dict[tuple[Asks, Constraint], Takes] = {}
        self._totals: dict[tuple[Asks, Constraint], int] = {}
        """The same on all nodes together."""
        self._full: set[int] = set()
        """Shapes of one role of which no more replicas fit. What is free only shrinks."""

    def takes(self, row: int, role: int) -> npt.NDArray[np.int64]:
        """By node: how many more replicas of this role fit, each holding what the present ones hold."""
        if self.snapshot.placements[row].requests is not None:
            return room_for_more(self.snapshot, self.free, row, role)
        return self._takes_of(self.snapshot.jobs.shape_at(row).roles[role])

    def _takes_of(self, role: RoleShape) -> npt.NDArray[np.int64]:
        nodes = self.snapshot.nodes
        if not role.asks:
            return room(nodes, self.free, role)
        key = (role.asks, role.constraint)
        known = self._takes.get(key)
        if known is None:
            by_node = room(nodes, self.free, role).astype(np.int64)
            known = self._takes[key] = Takes(role.asks, nodes.mask(role.constraint), by_node)
            self._totals[key] = int(np.add.reduce(by_node))
        return known.by_node

    def _total(self, role: RoleShape) -> int:
        """On all nodes together, for a role that asks for something."""
        key = (role.asks, role.constraint)
        if key not in self._totals:
            self._takes_of(role)
        return self._totals[key]

    def is_full(self, row: int) -> bool:
        """Whether no node takes another replica of any role of this job."""
        number = self.snapshot.jobs.columns.shapes[row]
        if number in self._full:
            return True
        roles = self.snapshot.jobs.shapes[number].roles
        if len(roles) > 1 or not roles[0].asks or self.snapshot.placements[row].requests is not None:
            return not any(self.takes(row, role).any() for role in range(len(roles)))
        if self._total(roles[0]):
            return False
        self._full.add(number)
        return True

    def rooms(self, columns: SizeColumns) -> Rooms:
        """By job of the columns: how many more replicas the free nodes take."""
        shapes = self.snapshot.jobs.shapes
        by_shape = np.zeros(len(shapes), np.int64)
        for number in set(columns.shape.tolist()):
            by_shape[number] = self._total(shapes[number].roles[0])
        found: Rooms = by_shape[columns.shape]
        return found

    def give(self, row: int, now: Placement, step: GrowthStep) -> bool:
        """Takes the replicas of a step out of what is free, if they still fit."""
        role = self.snapshot.jobs.shape_at(row).roles[step.role]
        changed = None if now.requests is None else now.requests[step.role]
        holds = role.asks if changed is None else [(kind, amount) for kind, amount in enumerate(changed) if amount]
        spots, free = counted(step.nodes), self.free
        if any(free.item(kind, node) < amount * count for node, count in spots for kind, amount in holds):
            return False
        for node, count in spots:
            for kind, amount in holds:
                free[kind, node] -= amount * count
        for key, (asks, suits, takes) in self._takes.items():
            for node, _ in spots:
                fit = max(0, min([free.item(kind, node) // n for kind, n in asks])) if suits[node] else 0
                self._totals[key] += fit - takes.item(node)
                takes[node] = fit
        return True
