"""Quotas: what each queue is guaranteed, how much more it may borrow, and how much of its own it lends.

Example: two queues with a quota of 4 GPUs each. While the second one is idle, the first may borrow and run 6. When jobs
of the second arrive, what the first borrowed is taken back.

`QueueUse` knows what each queue holds, and answers whether a job may be added. Three rules always hold. No queue is
above its quota plus what it may borrow. All queues together leave every queue the part of its quota that it does not
lend. What cannot be stopped borrows nothing that a quota promises, because it could not be taken back. Resource kinds
that no quota names have no limit. Where quotas name cpu, a replica that names none counts, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.job import Amounts, Can
from headway.core.node import BoolArray, FloatArray
from headway.core.placement import Placement, RoleShape, Shape, holds
from headway.core.quantity import CPU, DEFAULT_CPU, GPU
from headway.core.snapshot import Snapshot

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    quota: Amounts = ()
    """What it is guaranteed: borrowers are stopped for it."""
    borrow: Amounts = ()
    """The max that it may hold above its quota, by kind; kinds that are not named have no limit."""
    lend: Amounts = ()
    """The max of its quota that others may use while it does not, by kind; kinds that are not named: all of it."""
    weight: float = 1.0
    """Its part of capacity beyond quotas: a queue of weight 2 gets twice as much as one of weight 1."""


class QueueUse:
    """What queues hold and may hold, by queue and kind. Without settings: no quota, no limit and weight 1."""

    __slots__ = (
        "capacity", "cpu", "fixed", "held", "kept", "leasts", "managed", "max", "promised", "queue_of", "quota",
        "snapshot", "weight",
    )  # fmt: skip

    def __init__(self, snapshot: Snapshot, queues: Sequence[Queue]) -> None:
        nodes, names = snapshot.nodes, dict(snapshot.jobs.queues)
        for queue in queues:
            names.setdefault(queue.name, len(names))
        shape = (len(names), len(nodes.kinds))
        self.snapshot = snapshot
        self.quota: FloatArray = np.zeros(shape)
        self.max: FloatArray = np.full(shape, np.inf)
        self.kept: FloatArray = np.zeros(shape)
        """What no other queue may use."""
        self.weight: FloatArray = np.ones(len(names))
        for queue in queues:
            self._read(queue, names[queue.name], nodes.kinds)
        self.promised: FloatArray = self.quota.sum(axis=0)
        self.managed: BoolArray = np.any((self.quota > 0) | np.isfinite(self.max), axis=0)
        cpu = nodes.kinds.index(CPU) if CPU in nodes.kinds else -1
        self.cpu = cpu if cpu >= 0 and self.managed[cpu] else -1
        """The number of cpu among the kinds, where quotas name it: replicas that name none count there; else -1."""
        if not self.managed.any():
            self.managed = np.ones(len(nodes.kinds), np.bool_)
        self.capacity: FloatArray = nodes.total()
        self.queue_of = snapshot.jobs.queue
        self.held: FloatArray = np.zeros(shape)
        self.fixed: FloatArray = np.zeros(shape)
        """The part of it that jobs hold which cannot be stopped."""
        self.leasts: dict[tuple[int, int], FloatArray] = {}
        """What `least` has found, by shape and `can`."""
        for row in {*snapshot.placements, *snapshot.flights}:
            self.add(row, self.holding(row))

    def _read(self, queue: Queue, number: int, kinds: tuple[str, ...]) -> None:
        quota, borrow, lend = (_as_known(amounts, kinds) for amounts in (queue.quota, queue.borrow, queue.lend))
        for kind, name in enumerate(kinds):
            own = self.quota[number, kind] = float(quota.get(name, 0))
            if name in lend:
                self.kept[number, kind] = max(0.0, own - lend[name])
            if name in borrow:
                self.max[number, kind] = own + borrow[name]
        self.weight[number] = max(queue.weight, 1e-9)

    def copy(self) -> QueueUse:
        other: QueueUse = object.__new__(QueueUse)
        for name in QueueUse.__slots__:
            setattr(other, name, getattr(self, name))
        other.held, other.fixed = self.held.copy(), self.fixed.copy()
        return other

    # ── may a job be added? ─────────────────────────────────────────────────────────────────────────────

    def add(self, row: int, amounts: FloatArray) -> None:
        """The job of this row holds so much more; or less."""
        self.held[self.queue_of[row]] += amounts
        if not self.can_stop(row):
            self.fixed[self.queue_of[row]] += amounts

    def may_add(self, row: int, amounts: FloatArray) -> bool:
        """Whether all rules hold after the job is added."""
        queue, asked = self.queue_of[row], self.managed & (amounts > 0)
        after = self.held[queue] + amounts
        if (after[asked] > self.max[queue][asked] + _ROUNDING).any() or not self.may_stay(row, amounts):
            return False
        if self.guaranteed(row, amounts):
            return True
        total = np.maximum(self.held, self.kept).sum(axis=0) - np.maximum(self.held[queue], self.kept[queue])
        return not bool(((total + np.maximum(after, self.kept[queue]))[asked] > self.capacity[asked] + _ROUNDING).any())

    def may_reach(self, row: int, amounts: FloatArray, limit: QueueUse) -> bool:
        """Whether the job's queue stays within what it is entitled to."""
        queue, asked = self.queue_of[row], self.managed & (amounts > 0)
        within = self.held[queue][asked] + amounts[asked] <= limit.held[queue][asked] + _ROUNDING
        return bool(within.all()) and self.may_stay(row, amounts)

    def may_stay(self, row: int, amounts: FloatArray) -> bool:
        """Whether the job can be stopped, or else takes nothing that another queue's quota promises."""
        if self.can_stop(row):
            return True
        asked = self.managed & (amounts > 0)
        return bool((self.fixed[self.queue_of[row]] + amounts <= self.most_fixed(row) + _ROUNDING)[asked].all())

    def most_fixed(self, row: int) -> FloatArray:
        """What all jobs of its queue that cannot be stopped may hold: its quota, and what is promised to no queue."""
        queue = self.queue_of[row]
        above = np.maximum(self.fixed - self.quota, 0.0)
        spare = self.capacity - self.promised - (above.sum(axis=0) - above[queue])
        most: FloatArray = self.quota[queue] + np.maximum(spare, 0.0)
        return most

    def can_stop(self, row: int) -> bool:
        return bool(int(self.snapshot.jobs.can[row]) & Can.STOP)

    def guaranteed(self, row: int, amounts: FloatArray) -> bool:
        """Whether the job's queue stays within its quota."""
        queue, asked = self.queue_of[row], self.managed & (amounts > 0)
        return bool(asked.any()) and bool(
            (self.held[queue][asked] + amounts[asked] <= self.quota[queue][asked] + _ROUNDING).all()
        )

    def borrows(self, queue: int, more: float | FloatArray = 0.0) -> bool:
        """Whether the queue holds more than its quota, or would if it held `more`."""
        return bool(((self.held[queue] + more)[self.managed] > self.quota[queue][self.managed] + _ROUNDING).any())

    def share(self, queue: int) -> float:
        """The largest share of any kind that the queue holds above its quota, divided by its weight."""
        above = np.maximum(self.held[queue] - self.quota[queue], 0.0)
        shares = np.divide(above, self.capacity, out=np.zeros_like(above), where=self.capacity > 0)
        return float(shares[self.managed].max(initial=0.0) / self.weight[queue])

    # ── what a job counts for ───────────────────────────────────────────────────────────────────────────

    def holding(self, row: int) -> FloatArray:
        """By kind: what a job keeps from others, both ends of a move counted."""
        snapshot, flight = self.snapshot, self.snapshot.flights.get(row)
        source, shape = snapshot.placements.get(row), snapshot.jobs.shape_at(row)
        total: FloatArray = np.zeros(len(snapshot.nodes.kinds))
        for placement in holds(snapshot.jobs.state_of(row), source, flight.towards if flight else None, shape):
            total += self.amounts(row, placement)
        return total

    def amounts(self, row: int, placement: Placement) -> FloatArray:
        """By kind: what the job counts for with this placement."""
        total: FloatArray = np.zeros(len(self.snapshot.nodes.kinds))
        shape = self.snapshot.jobs.shape_at(row)
        for _, count, vector in placement.holdings(shape):
            total += count * vector
        return self._with_unnamed(row, shape, placement.counts, total)

    def least(self, row: int) -> FloatArray:
        """By kind: what a waiting job counts for at the smallest size at which a plan may start it."""
        jobs = self.snapshot.jobs
        alike = int(jobs.shape[row]), int(jobs.can[row])
        known = self.leasts.get(alike)
        if known is None:
            known = self.leasts[alike] = self._least(row)
            known.flags.writeable = False
        return known

    def _least(self, row: int) -> FloatArray:
        shape = self.snapshot.jobs.shape_at(row)
        counts = shape.min if int(self.snapshot.jobs.can[row]) & Can.SIZE else shape.counts
        total: FloatArray = np.zeros(len(self.snapshot.nodes.kinds))
        for role, count in zip(shape.roles, counts, strict=True):
            total += role.vector * float(count)
        return self._with_unnamed(row, shape, counts, total)

    def _with_unnamed(self, row: int, shape: Shape, counts: tuple[int, ...], total: FloatArray) -> FloatArray:
        """With the cpu of replicas that name none: as measured where no role names any, else the default."""
        silent = [self.names_no_cpu(role) for role in shape.roles]
        if any(silent):
            used = self.snapshot.used_cpu.get(row) if all(silent) else None
            number = sum(count for count, none in zip(counts, silent, strict=True) if none)
            total[self.cpu] += number * DEFAULT_CPU if used is None else used * 1000
        return total

    def names_no_cpu(self, role: RoleShape) -> bool:
        """Whether quotas name cpu and this role does not."""
        return self.cpu >= 0 and not role.vector[self.cpu] - dict(role.overhead).get(self.cpu, 0)


def _as_known(amounts: Amounts, kinds: tuple[str, ...]) -> dict[str, int]:
    """By the nodes' kinds. GPUs under a vendor's name, such as `nvidia.com/gpu`, are `gpu` where nodes call them so."""
    found: dict[str, int] = {}
    for name, amount in amounts:
        kind = GPU if name not in kinds and name.endswith("/gpu") else name
        found[kind] = found.get(kind, 0) + amount
    return found


def entitled(use: QueueUse) -> QueueUse:
    """What each queue may hold now: its quota for waiting jobs, then what is left, the smallest share first.

    In a queue jobs count by priority, then arrival. A job that may not be added lets others of its queue pass. The
    policy decides which jobs of a queue use what it may hold.
    """
    trial, lines = use.copy(), _lines(use.snapshot)
    for line in lines.values():
        for row in list(line):
            amounts = use.least(row)
            if trial.guaranteed(row, amounts) and trial.may_add(row, amounts):
                trial.add(row, amounts)
                line.remove(row)
    turns = [(trial.share(queue), queue) for queue in lines]
    heapq.heapify(turns)
    while turns:
        _, queue = heapq.heappop(turns)
        while lines[queue]:
            row = lines[queue].pop(0)
            amounts = use.least(row)
            if trial.may_add(row, amounts):
                trial.add(row, amounts)
                heapq.heappush(turns, (trial.share(queue), queue))
                break
    return trial


def _lines(snapshot: Snapshot) -> dict[int, list[int]]:
    """Waiting rows by queue, by priority and then arrival."""
    jobs, lines = snapshot.jobs, dict[int, list[int]]()
    waiting = jobs.waiting()
    for row in waiting[np.argsort(-jobs.priority[waiting], kind="stable")].tolist():
        lines.setdefault(int(jobs.queue[row]), []).append(row)
    return lines
