"""The native kube-scheduler's behaviour, pod by pod and without gangs: the baseline.

Pods are taken by priority, then arrival. A node must suit and have room (filters); of those the best score wins:
LeastAllocated plus BalancedAllocation, the lowest node number on a tie (the native one chooses at random). A pod that
finds a node is bound at once, whether the rest of its gang does or not. So half gangs hold their nodes and train
nothing, and two of them can wait for each other for ever.

A pod that found no node is tried again when something was freed. If that is before its back-off is over (1 second after
the first failure, doubling to 10), it comes after all that do not back off, by the whole second in which its back-off
ends: the native queue takes such pods as soon as it has no others. How often a pod was tried is computed from the
snapshot: on arrival and at every end of another job since.

A pod that finds no node may take that of pods of lower priority: `kube_preemption`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray, Nodes
from headway.core.placement import Placement, RoleShape
from headway.core.plan import Plan
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Snapshot
from headway.policies.baselines.kube_preemption import Preemption
from headway.policies.placing.add_remove import SOON
from headway.policies.placing.room import Rooms, fits_on
from headway.policies.ranges import Seconds
from headway.policies.value.times import Rows

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeDefault:
    first_backoff: Seconds = 1.0
    """Seconds after a pod's first failed attempt."""
    longest_backoff: Seconds = 10.0
    """The max number of seconds after a failed attempt."""

    gangless: ClassVar[bool] = True

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        full: set[tuple[object, ...]] = set()
        for row in some_pod_fits(draft, self.in_turn(snapshot, pending(snapshot))).tolist():
            if _any_fits(draft, row, full):
                _bind(draft, row, full)
        _preempt(draft, snapshot)
        return draft.plan()

    def in_turn(self, snapshot: Snapshot, rows: Rows) -> Rows:
        """The rows, by priority and arrival, with those last that still back off."""
        if len(rows) < 2:
            return rows
        now, arrived = snapshot.now, snapshot.jobs.submit[rows]
        freed = _freed(snapshot)
        before = freed[freed < now - _ROUNDING]
        tried = len(before) - np.searchsorted(before, arrived, side="right")
        last = np.maximum(arrived, before[-1]) if len(before) else arrived
        ends = last + np.minimum(self.longest_backoff, self.first_backoff * 2.0 ** np.minimum(tried, 10))
        backs_off = (arrived < now - _ROUNDING) & (ends > now)
        ordered: Rows = rows[np.argsort(np.where(backs_off, np.floor(ends), -np.inf), kind="stable")]
        return ordered


def _preempt(draft: Draft, snapshot: Snapshot) -> None:
    """Room for pods that found none, where some that run are less important. They are bound when the room is there."""
    rows = [row for row in pending(snapshot).tolist() if draft.decided(row) is None]
    if not rows or snapshot.jobs.priority[rows].max() <= snapshot.jobs.priority.min():
        return
    preemption = Preemption(draft)
    for row in rows:
        for _, role, count in _missing(snapshot, row):
            for _ in range(count):
                if not preemption.make_room(row, role):
                    break
    preemption.apply()


def pending(snapshot: Snapshot) -> Rows:
    """Jobs with pods that have no node: waiting ones, and half gangs; by priority, then by when they were queued. Pods
    of a job that was preempted are new ones.
    """
    jobs = snapshot.jobs
    waits, running = jobs.waiting(), jobs.running()
    half = running[jobs.size[running] < jobs.width[running]]
    rows = np.concatenate([waits, half])
    queued = np.concatenate([jobs.since[waits], jobs.submit[half]])
    ordered: Rows = rows[np.lexsort((rows, queued, -jobs.priority[rows]))]
    return ordered


def some_pod_fits(draft: Draft, rows: Rows) -> Rows:
    """The rows of shapes of which at least one pod finds a node. On a full cluster that is none, at little cost."""
    jobs = draft.snapshot.jobs
    rooms = Rooms(draft.snapshot.nodes, draft.free)
    fits = np.zeros(len(jobs.shapes), np.bool_)
    for number in np.flatnonzero(np.bincount(jobs.shape[rows], minlength=len(jobs.shapes))).tolist():
        fits[number] = any(rooms.total(role) > 0 for role in jobs.shapes[number].roles)
    return rows[fits[jobs.shape[rows]]]


def _freed(snapshot: Snapshot) -> FloatArray:
    """Moments at which a job ended, as far as the snapshot still knows, up to now."""
    jobs = snapshot.jobs
    moments: FloatArray = np.unique(jobs.since[jobs.over()])
    return moments


def _missing(snapshot: Snapshot, row: int) -> list[tuple[int, RoleShape, int]]:
    """Roles of a job that have pods without a node: number, role, how many."""
    shape, placement = snapshot.jobs.shape_at(row), snapshot.placements.get(row)
    have = placement.counts if placement is not None else (0,) * len(shape.roles)
    return [(i, role, role.replicas - have[i]) for i, role in enumerate(shape.roles) if role.replicas > have[i]]


def _any_fits(draft: Draft, row: int, full: set[tuple[object, ...]]) -> bool:
    """Whether one pod of the job finds a node now. Kinds of pods that once found none are not tried again."""
    snapshot = draft.snapshot
    if snapshot.jobs.shape_at(row).missing:
        return False
    for _, role, _ in _missing(snapshot, row):
        kind = (role.asks, role.constraint)
        if kind not in full:
            if fits_on(snapshot.nodes, draft.free, role).any():
                return True
            full.add(kind)
    return False


def _bind(draft: Draft, row: int, full: set[tuple[object, ...]]) -> None:
    """Node by node for all pods of a job. Of a running job one role at a time, because each is one decision."""
    snapshot, free = draft.snapshot, draft.free.copy()
    placement = snapshot.placements.get(row)
    found: dict[int, list[int]] = {}
    for number, role, count in _missing(snapshot, row):
        if (role.asks, role.constraint) in full:
            continue
        for _ in range(count):
            node = best_node(snapshot.nodes, free, role)
            if node is None:
                break
            found.setdefault(number, []).append(node)
            free[:, node] -= role.vector
    if not found:
        return
    if placement is None:
        roles = len(snapshot.jobs.shape_at(row).roles)
        draft.start(row, Placement(tuple(tuple(found.get(number, ())) for number in range(roles))))
        return
    number = next(iter(found))
    draft.scale(row, number, (*placement.nodes[number], *found[number]))
    if len(found) > 1:
        draft.wake(snapshot.now + SOON)


def best_node(nodes: Nodes, free: IntArray, role: RoleShape) -> int | None:
    fits = np.flatnonzero(fits_on(nodes, free, role))
    if not len(fits):
        return None
    capacity = nodes.capacity[:, fits].astype(np.float64)
    left = free[:, fits] - role.vector[:, None]
    scored = [nodes.kinds.index(kind) for kind in (CPU, MEMORY) if kind in nodes.kinds]
    kinds = scored if scored and capacity[scored].any() else list(range(len(nodes.kinds)))
    has = capacity[kinds] > 0
    share = np.where(has, left[kinds] / np.where(has, capacity[kinds], 1.0), 0.0)
    count = np.maximum(has.sum(axis=0), 1)
    least_allocated = np.floor(np.floor(share * 100).sum(axis=0) / count)
    mean = share.sum(axis=0) / count
    spread = np.sqrt(np.where(has, (share - mean) ** 2, 0.0).sum(axis=0) / count)
    balanced = np.floor((1 - spread) * 100)
    return int(fits[int((least_allocated + balanced).argmax())])
