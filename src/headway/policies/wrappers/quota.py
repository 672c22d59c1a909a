"""Quotas: what each queue is guaranteed, how much more it may borrow, and how much of its own it lends.

Example: two queues with a quota of 4 GPUs each. While the second one is idle, the first may borrow and run 6. When jobs
of the second arrive, what the first borrowed is taken back.

`QueueUse` knows what each queue holds, and answers whether a job may be added. Two rules always hold. No queue is above
its quota plus what it may borrow. All queues together leave every queue the part of its quota that it does not lend.
Resource kinds that no quota names have no limit.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.job import Amounts, Can
from headway.core.node import BoolArray, FloatArray
from headway.core.placement import Placement, holds
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

    __slots__ = ("capacity", "held", "kept", "managed", "most", "queue_of", "quota", "weight")

    def __init__(self, snapshot: Snapshot, queues: Sequence[Queue]) -> None:
        nodes, names = snapshot.nodes, dict(snapshot.jobs.queues)
        for queue in queues:
            names.setdefault(queue.name, len(names))
        shape = (len(names), len(nodes.kinds))
        self.quota: FloatArray = np.zeros(shape)
        self.most: FloatArray = np.full(shape, np.inf)
        self.kept: FloatArray = np.zeros(shape)
        """What no other queue may use."""
        self.weight: FloatArray = np.ones(len(names))
        for queue in queues:
            self._read(queue, names[queue.name], nodes.kinds)
        self.managed: BoolArray = np.any((self.quota > 0) | np.isfinite(self.most), axis=0)
        if not self.managed.any():
            self.managed = np.ones(len(nodes.kinds), np.bool_)
        self.capacity: FloatArray = nodes.total()
        self.queue_of = snapshot.jobs.queue
        self.held: FloatArray = np.zeros(shape)
        for row in {*snapshot.placements, *snapshot.flights}:
            self.held[self.queue_of[row]] += holding(snapshot, row)

    def _read(self, queue: Queue, number: int, kinds: tuple[str, ...]) -> None:
        quota, borrow, lend = dict(queue.quota), dict(queue.borrow), dict(queue.lend)
        for kind, name in enumerate(kinds):
            own = self.quota[number, kind] = float(quota.get(name, 0))
            if name in lend:
                self.kept[number, kind] = max(0.0, own - lend[name])
            if name in borrow:
                self.most[number, kind] = own + borrow[name]
        self.weight[number] = max(queue.weight, 1e-9)

    def copy(self) -> QueueUse:
        other: QueueUse = object.__new__(QueueUse)
        for name in QueueUse.__slots__:
            setattr(other, name, getattr(self, name))
        other.held = self.held.copy()
        return other

    def add(self, queue: int, amounts: FloatArray) -> None:
        self.held[queue] += amounts

    def may_add(self, queue: int, amounts: FloatArray) -> bool:
        """Whether both rules hold after the job is added."""
        asked = self.managed & (amounts > 0)
        after = self.held[queue] + amounts
        if (after[asked] > self.most[queue][asked] + _ROUNDING).any():
            return False
        if self.guaranteed(queue, amounts):
            return True
        total = np.maximum(self.held, self.kept).sum(axis=0) - np.maximum(self.held[queue], self.kept[queue])
        return not bool(((total + np.maximum(after, self.kept[queue]))[asked] > self.capacity[asked] + _ROUNDING).any())

    def may_reach(self, queue: int, amounts: FloatArray, limit: QueueUse) -> bool:
        """Whether the queue stays within what it is entitled to."""
        asked = self.managed & (amounts > 0)
        return bool((self.held[queue][asked] + amounts[asked] <= limit.held[queue][asked] + _ROUNDING).all())

    def guaranteed(self, queue: int, amounts: FloatArray) -> bool:
        """Whether the queue stays within its quota."""
        asked = self.managed & (amounts > 0)
        return bool(asked.any()) and bool(
            (self.held[queue][asked] + amounts[asked] <= self.quota[queue][asked] + _ROUNDING).all()
        )

    def borrows(self, queue: int) -> bool:
        return bool((self.held[queue][self.managed] > self.quota[queue][self.managed] + _ROUNDING).any())

    def share(self, queue: int) -> float:
        """The largest share of any kind that the queue holds above its quota, divided by its weight."""
        above = np.maximum(self.held[queue] - self.quota[queue], 0.0)
        shares = np.divide(above, self.capacity, out=np.zeros_like(above), where=self.capacity > 0)
        return float(shares[self.managed].max(initial=0.0) / self.weight[queue])


def holding(snapshot: Snapshot, row: int) -> FloatArray:
    """By kind: what a job keeps from others, both ends of a move counted."""
    flight = snapshot.flights.get(row)
    source, shape = snapshot.placements.get(row), snapshot.jobs.shape_at(row)
    total: FloatArray = np.zeros(len(snapshot.nodes.kinds))
    for placement in holds(snapshot.jobs.state_of(row), source, flight.towards if flight else None, shape):
        total += amounts_of(snapshot, row, placement)
    return total


def amounts_of(snapshot: Snapshot, row: int, placement: Placement) -> FloatArray:
    total: FloatArray = np.zeros(len(snapshot.nodes.kinds))
    for _, count, vector in placement.holdings(snapshot.jobs.shape_at(row)):
        total += count * vector
    return total


def entitled(snapshot: Snapshot, use: QueueUse) -> QueueUse:
    """What each queue may hold now: its quota for waiting jobs, then what is left, the smallest share first.

    In a queue jobs count by priority, then arrival. A job that may not be added lets others of its queue pass. The
    policy decides which jobs of a queue use what it may hold.
    """
    trial, lines = use.copy(), _lines(snapshot)
    for queue, line in lines.items():
        for row in list(line):
            amounts = least_amounts(snapshot, row)
            if trial.guaranteed(queue, amounts) and trial.may_add(queue, amounts):
                trial.add(queue, amounts)
                line.remove(row)
    turns = [(trial.share(queue), queue) for queue in lines]
    heapq.heapify(turns)
    while turns:
        _, queue = heapq.heappop(turns)
        while lines[queue]:
            amounts = least_amounts(snapshot, lines[queue].pop(0))
            if trial.may_add(queue, amounts):
                trial.add(queue, amounts)
                heapq.heappush(turns, (trial.share(queue), queue))
                break
    return trial


def least_amounts(snapshot: Snapshot, row: int) -> FloatArray:
    """By kind: what the job holds at the smallest size at which a plan may start it."""
    shape = snapshot.jobs.shape_at(row)
    counts = shape.least if int(snapshot.jobs.can[row]) & Can.SIZE else shape.counts
    total: FloatArray = np.zeros(len(snapshot.nodes.kinds))
    for role, count in zip(shape.roles, counts, strict=True):
        total += role.vector * float(count)
    return total


def _lines(snapshot: Snapshot) -> dict[int, list[int]]:
    """Waiting rows by queue, by priority and then arrival."""
    jobs, lines = snapshot.jobs, dict[int, list[int]]()
    waiting = jobs.waiting()
    for row in waiting[np.argsort(-jobs.priority[waiting], kind="stable")].tolist():
        lines.setdefault(int(jobs.queue[row]), []).append(row)
    return lines
