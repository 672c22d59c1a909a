"""Puts the replicas of a planned placement on nodes that their neighbours allow.

Plans know capacity, labels and taints. Whether a pod may be near other pods depends on each of them, also on those of
its own gang. So each replica is tried on its planned node first, then on the others that have room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.core.board import Board
from headway.core.node import IntArray, Nodes
from headway.core.placement import Placement, RoleShape, Shape, take
from headway.core.plan import Action, Decision, Move, Reserve, Scale, Start
from headway.kube.pods.constraints import Demands
from headway.kube.pods.placement_rules import Neighbours, PodFacts
from headway.kube.values import replace


class NoNodeLeft(ValueError):  # noqa: N818  it names what the gang is
    """No node is left for a replica, and why, in a sentence."""


@dataclass(frozen=True, slots=True)
class PodRules:
    """What the pods of one role demand."""

    facts: PodFacts = field(default_factory=PodFacts)
    demands: Demands = field(default_factory=Demands)


@dataclass(slots=True)
class Placing:
    """`free` is what this placement may take: what is free and what was planned for it."""

    nodes: Nodes
    free: IntArray
    neighbours: Neighbours
    _tried: list[str] = field(default_factory=list)

    def place(self, placement: Placement, shape: Shape, rules: Mapping[str, PodRules]) -> Placement:
        """The placement, or one that differs where neighbours do not allow it. Raises `NoNodeLeft` if there is none."""
        free = self.free.copy()
        found: list[tuple[int, ...]] = [() for _ in placement.nodes]
        try:
            for number in shape.order:
                role = shape.roles[number]
                vector = placement.vector(shape, number)
                chosen = []
                for planned in placement.nodes[number]:
                    node = self._node_for(planned, role, vector, free, rules.get(role.name, PodRules()))
                    free[:, node] -= vector
                    chosen.append(node)
                found[number] = tuple(chosen)
        finally:
            for uid in self._tried:
                self.neighbours.drop(uid)
            self._tried.clear()
        return Placement(tuple(found), placement.requests)

    def _node_for(self, planned: int, role: RoleShape, vector: IntArray, free: IntArray, rule: PodRules) -> int:
        question = self.neighbours.ask(rule.facts, rule.demands)
        fits = self.nodes.mask(role.constraint) & (free >= vector[:, None])[vector > 0].all(axis=0)
        why = question.refusal(self.nodes.nodes[planned].name) if fits[planned] else "has no room"
        found = -1 if why else planned
        others = np.flatnonzero(fits) if why else np.zeros(0, np.int64)
        for node in others.tolist():
            why = question.refusal(self.nodes.nodes[node].name)
            if not why:
                found = node
                break
        if found < 0:
            last = f"; the last one {why}" if why and len(others) else ""
            raise NoNodeLeft(f"None of {len(others)} nodes with room takes a replica of role {role.name!r}{last}.")
        self._tried.append(f"tried-{len(self._tried)}")
        self.neighbours.put(self._tried[-1], self.nodes.nodes[found].name, rule.facts)
        return found


@dataclass(slots=True)
class PlanRoom:
    """What is free while a plan is carried out. What its later decisions take stays free for them."""

    board: Board
    neighbours: Neighbours
    _plan: tuple[Decision, ...] = ()
    _later: IntArray | None = None
    """What the decisions that are not begun yet will take."""

    def begin(self, plan: Iterable[Decision]) -> None:
        self._plan, self._later = tuple(plan), None

    def place(self, number: int, rules: Mapping[str, PodRules]) -> Action:
        """The decision of this number, on other nodes where it must be. Raises `NoNodeLeft`."""
        action = self._plan[number]
        assert not isinstance(action, Reserve)
        minds = any(rule.facts.minds for rule in rules.values())
        if self._later is None and not (minds or self.neighbours.avoid):
            return action
        free = self._spare(number)
        if not isinstance(action, Start | Move | Scale) or not rules or not (minds or self.neighbours.avoid):
            return action
        return self._elsewhere(action, Placing(self.board.nodes, free, self.neighbours), rules)

    def _spare(self, number: int) -> IntArray:
        if self._later is None:
            self._later = np.zeros_like(self.board.free())
            for decision in self._plan[number:]:
                self._take(decision, +1)
        self._take(self._plan[number], -1)
        return self.board.free() - self._later

    def _take(self, decision: Decision, sign: int) -> None:
        board, row = self.board, self.board.row(decision.job)
        assert self._later is not None
        if row is not None and isinstance(decision, Start | Move):
            take(self._later, decision.placement, board.table.shape_at(row), sign)
        elif row is not None and isinstance(decision, Scale) and (old := board.placement(row)) is not None:
            role = board.role_number(row, decision.role)
            added = tuple((Counter(decision.nodes) - Counter(old.nodes[role])).elements())
            take(self._later, _only(old, role, added), board.table.shape_at(row), sign)

    def _elsewhere(self, action: Start | Move | Scale, placing: Placing, rules: Mapping[str, PodRules]) -> Action:
        board = self.board
        row = board.row(action.job)
        assert row is not None
        shape = board.table.shape_at(row)
        if not isinstance(action, Scale):
            return replace(action, placement=placing.place(action.placement, shape, rules))
        number, old = board.role_number(row, action.role), board.placement(row)
        assert old is not None
        kept = Counter(action.nodes) & Counter(old.nodes[number])
        added = tuple((Counter(action.nodes) - kept).elements())
        more = placing.place(_only(old, number, added), shape, rules)
        return replace(action, nodes=(*kept.elements(), *more.nodes[number]))


def _only(old: Placement, role: int, nodes: tuple[int, ...]) -> Placement:
    empty: tuple[tuple[int, ...], ...] = tuple(() for _ in old.nodes)
    return Placement(empty, old.requests).with_role(role, nodes)
