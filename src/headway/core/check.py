"""Does a plan keep the rules? Every plan is checked before it reaches a cluster; a decision that breaks one is refused.

The rules: at most one decision per job; jobs in flight are left alone; gangs are whole; nothing is done to a job that
it does not allow; nodes are ready and suitable; requests never exceed what is free, with both ends of a move counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.job import Can, JobId
from headway.core.placement import Placement, Shape, beyond, resized
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Snapshot
from headway.core.states import STATES, State

_BEGINS = (Start, Reserve)
_STARTABLE, _RUNNING = int(State.WAITING), int(State.RUNNING)
_ACTION = {Can.STOP: "stopping", Can.SCALE: "scaling", Can.RESIZE: "resizing", Can.MOVE: "moving"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decision that breaks a rule, and which rule."""

    decision: Decision
    why: str


def check(snapshot: Snapshot, plan: Plan, *, gangless: bool = False) -> tuple[Refusal, ...]:
    """The decisions that break a rule, each with the reason; the others may be applied together."""
    if not plan.decisions:
        return ()
    checker, refusals = _Checker(snapshot, gangless), list[Refusal]()
    for decision in plan.decisions:
        why = checker.why_not(decision)
        if why:
            refusals.append(Refusal(decision, why))
    return tuple(refusals)


class _Checker:
    def __init__(self, snapshot: Snapshot, gangless: bool) -> None:
        self.snapshot = snapshot
        self.gangless = gangless
        self.taken: dict[tuple[int, int], int] = {}
        """By kind and node: what the decisions so far take."""
        self.seen: set[JobId] = set()

    def why_not(self, decision: Decision) -> str:
        jobs = self.snapshot.jobs
        row = jobs.row_of.get(decision.job)
        if row is None or row >= jobs.count:
            return "there is no such job"
        if decision.job in self.seen:
            return "the plan decides twice about this job"
        self.seen.add(decision.job)
        wanted = _STARTABLE if isinstance(decision, _BEGINS) else _RUNNING
        state = jobs.value(row, "state")
        if state != wanted:
            return f"the job is {STATES[state].name.lower()}, not {STATES[wanted].name.lower()}"
        return self._rule(decision, row)

    def _rule(self, decision: Decision, row: int) -> str:
        match decision:
            case Start(placement=placement):
                return self._fits_shape(row, placement) or self._take(row, placement)
            case Stop(because=because):
                return "" if because is Because.CANCELLED else self._unless(Can.STOP, row)
            case Reserve(placement=placement):
                return self._fits_shape(row, placement)
            case Scale(role=role, nodes=nodes):
                return ("" if self.gangless else self._unless(Can.SCALE, row)) or self._scale(row, role, nodes)
            case Resize():
                return self._unless(Can.RESIZE, row) or self._resize(row, decision)
            case Move(placement=placement):
                return self._unless(Can.MOVE, row) or self._move(row, placement)

    def _unless(self, needed: Can, row: int) -> str:
        """Empty where the job allows it."""
        allowed = self.snapshot.jobs.value(row, "can") & needed
        return "" if allowed else f"the job does not allow {_ACTION[needed]}"

    def _move(self, row: int, placement: Placement) -> str:
        why = self._fits_shape(row, placement, any_size=True)
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
        if not (0 if self.gangless else target.min) <= len(nodes) <= target.max:
            return f"role {role!r} must have {target.min} to {target.max} replicas, not {len(nodes)}"
        why = self._nodes_suit(shape, number, nodes)
        if why:
            return why
        more = beyond(nodes, old.nodes[number])
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

    def _fits_shape(self, row: int, placement: Placement, *, any_size: bool = False) -> str:
        shape = self.snapshot.jobs.shape_at(row)
        if shape.missing:
            return f"no node has {shape.missing}"
        if len(placement.nodes) != len(shape.roles):
            return "the placement has another number of roles than the job"
        for number, (role, nodes) in enumerate(zip(shape.roles, placement.nodes, strict=True)):
            if len(nodes) != role.replicas or not role.min <= role.replicas <= role.max:
                least = most = role.replicas
                if any_size or self.snapshot.jobs.value(row, "can") & Can.SIZE:
                    least, most = role.min, role.max
                if not (0 if self.gangless else least) <= len(nodes) <= most:
                    bounds = f"{least} to {most}" if least != most else str(least)
                    return f"gangs are whole: role {role.name!r} must have {bounds} replicas, not {len(nodes)}"
            why = self._nodes_suit(shape, number, nodes)
            if why:
                return why
        return ""

    def _nodes_suit(self, shape: Shape, number: int, nodes: tuple[int, ...]) -> str:
        table, constraint = self.snapshot.nodes, shape.roles[number].constraint
        if not nodes:
            return ""
        least, most = min(nodes), max(nodes)
        if least < 0 or most >= len(table):
            return f"there is no node number {least if least < 0 else most}"
        if table.all_suit(constraint):
            return ""
        mask = table.mask(constraint)
        for node in sorted(set(nodes)):
            if not mask[node]:
                name = table.nodes[node]
                return f"node {name.name} {constraint.refusal(name) or 'is not ready'}"
        return ""

    def _take(self, row: int, placement: Placement) -> str:
        """Takes the placement out of what is free; or says which node has too little, and of what."""
        shape, requests = self.snapshot.jobs.shape_at(row), placement.requests
        wanted: dict[tuple[int, int], int] = {}
        for number, spots in enumerate(placement.spots):
            changed = None if requests is None else requests[number]
            for kind, amount in shape.roles[number].asks if changed is None else enumerate(changed):
                if amount <= 0:
                    continue
                for node, count in spots:
                    spot = (kind, node)
                    before = wanted.get(spot)
                    wanted[spot] = (self.taken.get(spot, 0) if before is None else before) + amount * count
        free = self.snapshot.free
        for (kind, node), amount in wanted.items():
            if amount > free.item(kind, node):
                name, nodes = self.snapshot.nodes.kinds[kind], self.snapshot.nodes.nodes
                return f"node {nodes[node].name} has too little {name} free"
        self.taken.update(wanted)
        return ""
