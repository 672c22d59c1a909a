"""A plan being written: a working copy of what is free, and the decisions so far. Try on a copy; never undo."""

from __future__ import annotations

import math

import numpy as np

from headway.core.job import Role
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape, holds, only_role, resized, take
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Snapshot

NOTHING = Plan()


class Leave:
    """In place of a decision: no later step of this plan may touch the job. It does not reach the plan."""


LEAVE = Leave()


class Draft:
    """Policies write their plan into a draft. Each decision takes what it needs out of `free`."""

    __slots__ = ("_decisions", "_in_flight", "_left", "_own", "coming", "free", "snapshot", "until")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.free: IntArray = snapshot.free
        """What may be given away in this plan."""
        self.coming: list[tuple[Placement, Shape]] = []
        """What the stops, moves and shrinks of this plan will free later; it must not be given away yet."""
        self.until = math.inf
        self._decisions: dict[int, Decision] = {}
        self._left: dict[int, Leave] = {}
        self._own = False
        self._in_flight: IntArray | None = None

    def copy(self) -> Draft:
        other = Draft(self.snapshot)
        other.free = self.free.copy()
        other.coming = self.coming.copy()
        other.until = self.until
        other._decisions, other._left = dict(self._decisions), dict(self._left)
        other._own = True
        return other

    def adopt(self, trial: Draft) -> None:
        """Takes over a trial that went well."""
        self.free, self.coming, self.until = trial.free, trial.coming, trial.until
        self._decisions, self._left, self._own = trial._decisions, trial._left, True

    def plan(self) -> Plan:
        if not self._decisions and self.until == math.inf:
            return NOTHING
        return Plan(tuple(self._decisions.values()), self.until)

    def decided(self, row: int) -> Decision | Leave | None:
        return self._decisions.get(row) or self._left.get(row)

    def decided_rows(self) -> list[int]:
        """Rows that have a decision, in the order of the decisions; then those that are left as they are."""
        return [*self._decisions, *self._left] if self._left else list(self._decisions)

    def leave(self, row: int) -> None:
        """Keeps later steps of this plan from touching the job."""
        self._left[row] = LEAVE

    def wake(self, at: float) -> None:
        """Asks for a cycle at this moment even if nothing happens."""
        if self.snapshot.now < at < self.until:
            self.until = at

    def start(self, row: int, placement: Placement) -> None:
        self._take(row, placement)
        self._decisions[row] = Start(self.snapshot.jobs.job(row).id, placement)

    def scale(self, row: int, role: int, nodes: tuple[int, ...]) -> None:
        """`nodes`: the role's nodes afterwards. What is given up is free only when the replicas are gone."""
        job, old = self.snapshot.jobs.job(row), self.snapshot.placements[row]
        more = list(nodes)
        gone = []
        for node in old.nodes[role]:
            if node in more:
                more.remove(node)
            else:
                gone.append(node)
        self._take(row, only_role(old, role, tuple(more)))
        self._release(row, only_role(old, role, tuple(gone)))
        self._decisions[row] = Scale(job.id, job.roles[role].name, nodes)

    def resize(self, row: int, role: int, cpu: int, memory: int) -> None:
        job, old = self.snapshot.jobs.job(row), self.snapshot.placements[row]
        shape, kinds = self.snapshot.jobs.shape_at(row), self.snapshot.nodes.kinds
        wanted = resized(old, shape, role, kinds, {CPU: cpu, MEMORY: memory})
        growth = tuple(int(amount) for amount in wanted.vector(shape, role) - old.vector(shape, role))
        only = only_role(old, role, old.nodes[role])
        self._take(row, only.with_request(role, tuple(max(0, amount) for amount in growth)))
        self._release(row, only.with_request(role, tuple(max(0, -amount) for amount in growth)))
        self._decisions[row] = Resize(job.id, job.roles[role].name, cpu, memory)

    def move(self, row: int, placement: Placement) -> None:
        """Both ends are held until the job is up elsewhere."""
        self._take(row, placement)
        self._release(row, self.snapshot.placements[row])
        self._decisions[row] = Move(self.snapshot.jobs.job(row).id, placement)

    def stop(self, row: int, because: Because = Because.PREEMPTED) -> None:
        self._release(row, self.snapshot.placements[row])
        self._decisions[row] = Stop(self.snapshot.jobs.job(row).id, because)

    def insist(self, row: int) -> None:
        """The job is stopped already in this plan: now for a quota, so that it goes even if it does not save."""
        self._decisions[row] = Stop(self.snapshot.jobs.job(row).id, Because.RECLAIMED)

    def reserve(self, row: int, placement: Placement, until: float) -> None:
        """Records that this placement is kept for the job, and asks for a cycle at `until`."""
        self._decisions[row] = Reserve(self.snapshot.jobs.job(row).id, placement, until)
        self.wake(until)

    def role(self, row: int, number: int) -> Role:
        return self.snapshot.jobs.job(row).roles[number]

    def soon(self) -> IntArray:
        """Free now, or as soon as what this plan and earlier ones have stopped, moved or shrunk is gone."""
        soon: IntArray = self.free.copy()
        for placement, shape in self.coming:
            take(soon, placement, shape, +1)
        if self.snapshot.flights:
            if self._in_flight is None:
                self._in_flight = self._freed_by_flights()
            soon += self._in_flight
        return soon

    def _freed_by_flights(self) -> IntArray:
        """By kind and node: what will be free when everything under way has landed, less what it then holds."""
        snapshot, freed = self.snapshot, np.zeros_like(self.free)
        for row, flight in snapshot.flights.items():
            source = snapshot.placements.get(row)
            if source is None:
                continue
            state, shape = snapshot.jobs.state_of(row), snapshot.jobs.shape_at(row)
            for placement in holds(state, source, flight.towards, shape):
                take(freed, placement, shape, +1)
            if flight.towards is not None:
                take(freed, flight.towards, shape)
        return freed

    def _writable(self) -> None:
        if not self._own:
            self.free = self.free.copy()
            self._own = True

    def _take(self, row: int, placement: Placement) -> None:
        self._writable()
        take(self.free, placement, self.snapshot.jobs.shape_at(row))

    def _release(self, row: int, placement: Placement) -> None:
        self.coming.append((placement, self.snapshot.jobs.shape_at(row)))
