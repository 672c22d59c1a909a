"""Which job holds what, when, and whether it trains: read from a log's plans and changes, exact to the log's times.

A change has the state of a job now, not the states that it passed through since the last cycle. A job that starts and
finishes between two cycles is never seen running. What it held is in the plan that started it, and how long it trained
is in its attained seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.quantity import CPU, GPU
from headway.core.states import TRAINING, State
from headway.record.lines import MOST_ROLES, Change
from headway.record.timeline import KeptStays

Packed = list[Any]
"""A placement as the log has it: nodes per role and, after a resize, amounts per role."""
Demand = dict[int, list[int]]
"""Node to amounts by kind."""

_TRAINING = frozenset(int(state) for state in TRAINING)
_ROUNDING = 1e-9


@dataclass(slots=True, eq=False)
class Stay:
    """What one job holds from a moment on."""

    job: Job
    requests: list[list[int]]
    since: float
    attained: float = 0.0
    runs: bool = False
    """Whether it is known to train. Where it is not, its attained seconds tell later."""
    short: bool = False
    """Below its gang's minimum: it holds resources and does no work."""
    placement: Packed | None = None
    demand: Demand = field(default_factory=dict)
    amounts: list[int] = field(default_factory=list)
    up: float = 0.0
    area: float = 0.0


class Holdings:
    """Amount times seconds held, by kind of resource. With `keep`, also every stay, for pictures."""

    def __init__(self, *, keep: bool = False) -> None:
        self.now = 0.0
        self.kinds: tuple[str, ...] = ()
        self.main = 0
        """The main resource: accelerators, or cpu where there are none."""
        self.held: list[float] = []
        self.stalled: list[float] = []
        self.capacity_area: list[float] = []
        self.free_area = self.split_area = self.idle_area = self.present_area = self.used_area = 0.0
        self.used_known = False
        self.stays: dict[int, Stay] = {}
        self.kept = KeptStays() if keep else None
        self._capacity: list[int] = []
        self._node_capacity: list[int] = []
        self._node_free: list[int] = []
        self._free = self._split = self._holding = 0
        self._used: dict[int, float] = {}
        self._used_total = 0.0
        self._requests: dict[int, tuple[object, list[list[int]]]] = {}
        """By the identity of a job's roles, which are kept beside it: jobs of a trace share roles."""
        self._began = False

    @property
    def main_kind(self) -> str:
        return self.kinds[self.main] if self.kinds else ""

    def set_nodes(self, nodes: Nodes) -> None:
        """Takes new nodes and counts again what is held on them."""
        self.kinds = nodes.kinds
        self._requests.clear()
        for column in (self.held, self.stalled, self.capacity_area):
            column.extend([0.0] * (len(nodes.kinds) - len(column)))
        self.main = next((nodes.kinds.index(kind) for kind in (GPU, CPU) if _has(nodes, kind)), 0)
        self._capacity = [int(total) for total in (nodes.capacity * nodes.ready).sum(axis=1)]
        self._node_capacity = [int(a) for a in (nodes.capacity[self.main] * nodes.ready)] if nodes.kinds else []
        self._node_free = list(self._node_capacity)
        self._free, self._split = sum(self._node_capacity), 0
        for stay in self.stays.values():
            if stay.amounts and len(stay.amounts) < len(nodes.kinds):
                more = [0] * (len(nodes.kinds) - len(stay.amounts))
                stay.demand = {node: [*amounts, *more] for node, amounts in stay.demand.items()}
                stay.amounts = [*stay.amounts, *more]
            stay.requests = self._vectors(stay.job)
            self._occupy(stay.demand, +1)

    def advance(self, now: float) -> None:
        if not self._began:
            self.now, self._began = now, True
        seconds = now - self.now
        if seconds <= 0:
            return
        self.now = now
        present = len(self.stays)
        self.present_area += present * seconds
        self.free_area += self._free * seconds
        self.split_area += self._split * seconds
        if self.kept is not None and self._split:
            self.kept.splits.extend((now - seconds, now, self._split))
        if present > self._holding:
            self.idle_area += self._free * seconds
        for kind, amount in enumerate(self._capacity):
            self.capacity_area[kind] += amount * seconds
        if self._used_total:
            self.used_area += self._used_total * seconds

    # ── what the log says ──────────────────────────────────────────────────────────────────────────────

    def decided(self, serial: int, packed: list[Any], now: float) -> None:
        """Takes a plan's decision, which begins at once. A later change tells its result."""
        stay = self.stays.get(serial)
        if stay is None:
            return
        kind = packed[0]
        if kind == "start" and not stay.amounts:
            towards: Packed = packed[2]
            self._end_stay(serial, stay, now)
            self._hold(stay, self._demand(stay, towards), towards)
        elif kind == "scale" and stay.placement is not None:
            number = next(i for i, role in enumerate(stay.job.roles) if role.name == packed[2])
            nodes = (*stay.placement[0][:number], packed[3], *stay.placement[0][number + 1 :])
            self._end_stay(serial, stay, now)
            towards = [nodes, *stay.placement[1:]]
            self._hold(stay, self._demand(stay, towards), towards)
        elif kind == "move" and stay.placement is not None:
            self._end_stay(serial, stay, now)
            self._hold(stay, _sum(self._demand(stay, stay.placement), self._demand(stay, packed[2])), None)
        elif kind == "stop":
            self._end_stay(serial, stay, now)
        else:
            return
        stay.runs = False

    def changed(self, change: Change, *, over: bool) -> Stay | None:
        """Ends the job's stay and begins the next. Returns the stay, or None if the job was over before."""
        serial = change.serial
        stay = self.stays.get(serial)
        if stay is None:
            return None
        if change.since > self.now:
            self.advance(change.since)
        self._end_stay(serial, stay, change.since, change.attained)
        if over:
            self._hold(stay, {}, None)
            self.use(serial, 0.0)
            del self.stays[serial]
            return stay
        if change.placement is None:  # a job that was stopped uses nothing
            self.use(serial, 0.0)
        self._settle(stay, change)
        return stay

    def arrive(self, serial: int, job: Job) -> None:
        self.stays[serial] = Stay(job, self._vectors(job), max(self.now, job.submit))

    def edit(self, before: int, serial: int, job: Job) -> None:
        """The job has other terms, and perhaps another number, from now on. What it holds stays."""
        if before in self.stays:
            stay = self.stays[serial] = self.stays.pop(before)
            stay.job, stay.requests = job, self._vectors(job)
            self._used[serial] = self._used.pop(before, 0.0)

    def _vectors(self, job: Job) -> list[list[int]]:
        """Per role: what one replica asks for, by kind. Cached, because many jobs of a trace are alike."""
        known = self._requests.get(id(job.roles))
        if known is not None and known[0] is job.roles:
            return known[1]
        if len(self._requests) >= MOST_ROLES:
            self._requests.clear()
        requests = [[dict(role.request).get(kind, 0) for kind in self.kinds] for role in job.roles]
        self._requests[id(job.roles)] = (job.roles, requests)
        return requests

    def use(self, serial: int, cores: float) -> None:
        self.used_known = self.used_known or cores > 0
        self._used_total += cores - self._used.pop(serial, 0.0)
        if cores:
            self._used[serial] = cores

    def close(self, now: float) -> None:
        """Ends all open stays at the last moment of the log."""
        self.advance(now)
        for serial, stay in self.stays.items():
            self._end_stay(serial, stay, now)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, stay: Stay, change: Change) -> None:
        state, placement = change.state, change.placement
        towards = change.flight[0] if change.flight else None
        one = placement or towards
        if placement is None or towards is None or placement == towards:
            self._hold(stay, stay.demand if one == stay.placement else self._demand(stay, one), one)
        else:
            both = _sum if state == State.MOVING else _larger
            self._hold(stay, both(self._demand(stay, placement), self._demand(stay, towards)), None)
        stay.short = False
        if placement is not None:
            for nodes, role in zip(placement[0], stay.job.roles, strict=False):
                if len(nodes or ()) < role.min:
                    stay.short = True
        stay.runs = state in _TRAINING and not stay.short

    def _end_stay(self, serial: int, stay: Stay, until: float, attained: float | None = None) -> None:
        """Adds up what was held since the last change. `attained` corrects what was not seen."""
        seconds = until - stay.since
        if seconds > 0:
            trained = seconds if stay.runs else 0.0
            if not stay.runs and attained is not None and not stay.short and stay.amounts:
                trained = min(max(0.0, attained - stay.attained), seconds)
                trained = seconds if seconds - trained < _ROUNDING * until else trained
            stay.up += trained
            if stay.amounts:
                self._book(stay, seconds, seconds - trained)
            if self.kept is not None:
                places = {node: amounts[self.main] for node, amounts in stay.demand.items()}
                self.kept.add(serial, (stay.since, until - trained, until), places if stay.amounts else None)
            stay.attained += trained
            stay.since = until
        if attained is not None:
            stay.attained = attained

    def _book(self, stay: Stay, seconds: float, idle: float) -> None:
        held, stalled = self.held, self.stalled
        for kind, amount in enumerate(stay.amounts):
            held[kind] += amount * seconds
            if idle:
                stalled[kind] += amount * idle
        stay.area += stay.amounts[self.main] * seconds

    def _hold(self, stay: Stay, demand: Demand, placement: Packed | None) -> None:
        """The job holds this from now on. The placement is kept only if it alone explains what is held."""
        stay.placement = placement
        if demand is stay.demand:
            return
        if stay.demand:
            self._occupy(stay.demand, -1)
        if demand:
            self._occupy(demand, +1)
        self._holding += bool(demand) - bool(stay.demand)
        stay.demand = demand
        if len(demand) > 1:
            stay.amounts = [sum(column) for column in zip(*demand.values(), strict=True)]
        else:
            stay.amounts = next(iter(demand.values()), [])

    def _occupy(self, demand: Demand, sign: int) -> None:
        main, free, capacity = self.main, self._node_free, self._node_capacity
        for node, amounts in demand.items():
            amount, whole = amounts[main], capacity[node]
            if not amount or not whole:  # nothing is free on a node that is not ready, even if jobs are still on it
                continue
            before = free[node]
            after = free[node] = before - sign * amount
            self._free += after - before
            self._split += (after if after < whole else 0) - (before if before < whole else 0)

    def _demand(self, stay: Stay, placement: Packed | None) -> Demand:
        if placement is None:
            return {}
        changed = placement[1] if len(placement) > 1 else None
        demand: Demand = {}
        for number, nodes in enumerate(placement[0]):
            vector = stay.requests[number] if changed is None or changed[number] is None else list(changed[number])
            if len(nodes) == 1 and nodes[0] not in demand:
                demand[nodes[0]] = vector
                continue
            alike = len(nodes) and nodes.count(nodes[0]) == len(nodes)
            for node, count in ((nodes[0], len(nodes)),) if alike else Counter(nodes).items():
                add = vector if count == 1 else [count * amount for amount in vector]
                demand[node] = _plus(demand[node], add) if node in demand else add
        return demand


def _has(nodes: Nodes, kind: str) -> bool:
    return kind in nodes.kinds and bool(nodes.capacity[nodes.kinds.index(kind)].any())


def _plus(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _sum(one: Demand, other: Demand) -> Demand:
    return one | {node: _plus(one[node], amounts) if node in one else amounts for node, amounts in other.items()}


def _larger(one: Demand, other: Demand) -> Demand:
    both = dict(one)
    for node, amounts in other.items():
        both[node] = [max(a, b) for a, b in zip(one[node], amounts, strict=True)] if node in one else amounts
    return both
