"""Does a plan keep the rules? Every plan is checked before it reaches a cluster; what breaks a rule is refused.

The rules: at most one decision per job; jobs in flight are left alone; gangs are whole; nothing is done to a job that
it does not allow; nodes are ready and suit; requests never exceed what is free, both ends of a move counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from headway.core.job import Can, JobId
from headway.core.node import IntArray
from headway.core.placement import Placement, resized, take
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.quantity import CPU, MEMORY
from headway.core.shape import Shape
from headway.core.snapshot import Snapshot
from headway.core.states import State


@dataclass(frozen=True, slots=True)
class Refusal:
    decision: Decision
    why: str


def check(snapshot: Snapshot, plan: Plan, *, gangless: bool = False) -> tuple[Refusal, ...]:
    """The decisions that break a rule, each with the reason; the others may be applied together."""
    checker = _Checker(snapshot, gangless)
    return tuple(Refusal(decision, why) for decision in plan.decisions if (why := checker.why_not(decision)))


class _Checker:
    def __init__(self, snapshot: Snapshot, gangless: bool) -> None:
        self.snapshot = snapshot
        self.gangless = gangless
        self.free: IntArray = snapshot.free.copy()
        self.seen: set[JobId] = set()

    def why_not(self, decision: Decision) -> str:
        jobs = self.snapshot.jobs
        row = jobs.row_of.get(decision.job)
        if row is None or row >= jobs.count:
            return "there is no such job"
        if decision.job in self.seen:
            return "the plan decides twice about this job"
        self.seen.add(decision.job)
        wanted = State.WAITING if isinstance(decision, Start | Reserve) else State.RUNNING
        state = jobs.state_of(row)
        if state is not wanted:
            return f"the job is {state.name.lower()}, not {wanted.name.lower()}"
        return self._rule(decision, row, Can(int(jobs.can[row])))

    def _rule(self, decision: Decision, row: int, allowed: Can) -> str:
        match decision:
            case Start(placement=placement):
                return self._start(row, placement, allowed)
            case Reserve(placement=placement):
                return self._fits_shape(row, placement, allowed)
            case Scale(role=role, nodes=nodes):
                return ("" if self.gangless else _unless(Can.SCALE, allowed)) or self._scale(row, role, nodes)
            case Resize():
                return _unless(Can.RESIZE, allowed) or self._resize(row, decision)
            case Move(placement=placement):
                return _unless(Can.MOVE, allowed) or self._move(row, placement)
            case Stop(because=because):
                return "" if because is Because.CANCELLED else _unless(Can.STOP, allowed)

    def _start(self, row: int, placement: Placement, allowed: Can) -> str:
        return self._fits_shape(row, placement, allowed) or self._take(row, placement)

    def _move(self, row: int, placement: Placement) -> str:
        why = self._fits_shape(row, placement, Can.SIZE)
        if why:
            return why
        if placement.counts != self.snapshot.placements[row].counts:
            return "a move keeps the number of replicas"
        return self._take(row, placement)

    def _scale(self, row: int, role: str, nodes: tuple[int, ...]) -> str:
        shape, old = self.snapshot.jobs.shape_at(row), self.snapshot.placements[row]
        number = next((i for i, candidate in enumerate(shape.roles) if candidate.name == role), None)
        if number is None:
            return f"the job has no role {role!r}"
        target = shape.roles[number]
        if not (0 if self.gangless else target.least) <= len(nodes) <= target.most:
            return f"role {role!r} must have {target.least} to {target.most} replicas, not {len(nodes)}"
        why = self._nodes_suit(shape, number, nodes)
        if why:
            return why
        more = tuple((Counter(nodes) - Counter(old.nodes[number])).elements())
        empty: tuple[tuple[int, ...], ...] = tuple(() for _ in old.nodes)
        return self._take(row, Placement(empty, old.requests).with_role(number, more))

    def _resize(self, row: int, decision: Resize) -> str:
        shape, old = self.snapshot.jobs.shape_at(row), self.snapshot.placements[row]
        number = next((i for i, role in enumerate(shape.roles) if role.name == decision.role), None)
        if number is None:
            return f"the job has no role {decision.role!r}"
        if decision.cpu <= 0 or decision.memory <= 0:
            return "cpu and memory must stay above zero"
        amounts = {CPU: decision.cpu, MEMORY: decision.memory}
        wanted = resized(old, shape, number, self.snapshot.nodes.kinds, amounts).vector(shape, number)
        growth = tuple(int(amount) for amount in (wanted - old.vector(shape, number)).clip(min=0))
        empty: tuple[tuple[int, ...], ...] = tuple(() for _ in old.nodes)
        change = Placement(empty).with_role(number, old.nodes[number]).with_request(number, growth)
        return self._take(row, change)

    def _fits_shape(self, row: int, placement: Placement, allowed: Can) -> str:
        shape = self.snapshot.jobs.shape_at(row)
        if shape.missing:
            return f"no node has {shape.missing}"
        if len(placement.nodes) != len(shape.roles):
            return "the placement has another number of roles than the job"
        for number, (role, nodes) in enumerate(zip(shape.roles, placement.nodes, strict=True)):
            if Can.SIZE in allowed:
                least, most = role.least, role.most
            else:
                least = most = role.replicas
            if not (0 if self.gangless else least) <= len(nodes) <= most:
                bounds = f"{least} to {most}" if least != most else str(least)
                return f"gangs are whole: role {role.name!r} must have {bounds} replicas, not {len(nodes)}"
            why = self._nodes_suit(shape, number, nodes)
            if why:
                return why
        return ""

    def _nodes_suit(self, shape: Shape, number: int, nodes: tuple[int, ...]) -> str:
        table = self.snapshot.nodes
        mask = table.mask(shape.roles[number].constraint)
        distinct = sorted(set(nodes))
        if distinct and not 0 <= distinct[0] <= distinct[-1] < len(table):
            return f"there is no node number {distinct[0] if distinct[0] < 0 else distinct[-1]}"
        for node in distinct:
            if not mask[node]:
                name = table.nodes[node]
                return f"node {name.name} {shape.roles[number].constraint.refusal(name) or 'is not ready'}"
        return ""

    def _take(self, row: int, placement: Placement) -> str:
        """Takes the placement from what is left; where that goes below zero, gives it back and says so."""
        shape = self.snapshot.jobs.shape_at(row)
        take(self.free, placement, shape)
        touched = list(placement.used_nodes())
        if not touched or bool((self.free[:, touched] >= 0).all()):
            return ""
        asked = np.zeros(len(self.snapshot.nodes.kinds), np.bool_)
        for number, role in enumerate(placement.nodes):
            if role:
                asked |= placement.vector(shape, number) > 0
        short = (self.free[:, touched] < 0) & asked[:, None]
        if not short.any():
            return ""
        take(self.free, placement, shape, +1)
        kind, column = np.argwhere(short)[0]
        node = self.snapshot.nodes.nodes[touched[column]]
        return f"node {node.name} has not enough {self.snapshot.nodes.kinds[kind]} free"


def _unless(needed: Can, allowed: Can) -> str:
    return "" if needed in allowed else f"the job does not allow to {(needed.name or '').lower()}"
