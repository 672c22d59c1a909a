"""DRAGON as its authors coded it (version 0.9.1): starvation relief by shrinking, first fit, growth when idle.

One pass per event, and one every `loop` seconds while there is work to do:

1. Has the head of the queue waited for 30 seconds, or does a job of higher priority wait? Then its min workers
   (parameter servers are not counted) must get room. Running jobs in order of their start give up workers one by one,
   those on nodes without a parameter server first, until the request fits. All or nothing.
2. Without such a request, or when room was made for it, the first waiting job that fits starts; one per pass. When no
   room could be made, nothing starts. What was given up is used in the next pass.
3. If nothing happened for 60 seconds and no job asked for relief, running jobs grow, each to its max before the next.

Both clocks are in the snapshot: how long the head has waited, and when the last decision about a job was made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.policies.placing.add_remove import grow, may_scale
from headway.policies.placing.pack import place
from headway.policies.placing.room import room
from headway.policies.ranges import Seconds
from headway.policies.steps.order import by_key
from headway.policies.steps.start import may_fit
from headway.policies.value.times import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Dragon:
    patience: Seconds = 30.0
    """Seconds that the head of the queue waits before others shrink for it."""
    idle: Seconds = 60.0
    """Seconds without any decision after which running jobs grow."""
    loop: Seconds = 15.0
    """Seconds between two passes while jobs wait and there was something to do."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        waiting = snapshot.jobs.waiting()
        urgent = self._urgent(draft, waiting)
        if urgent is None or _relieve(draft, urgent):
            _start_first_that_fits(draft, waiting)
        if draft.decided_rows():
            if len(waiting):
                draft.wake(snapshot.now + self.loop)
        elif urgent is None:
            self._grow_when_idle(draft)
        return draft.plan()

    def _urgent(self, draft: Draft, waiting: Rows) -> int | None:
        """The job that is due for relief. The plan asks to be called when the head will be."""
        snapshot = draft.snapshot
        if not len(waiting):
            return None
        high = waiting[snapshot.jobs.priority[waiting] > 0]
        if len(high):
            return int(high[0])
        head = int(waiting[0])
        due = float(snapshot.jobs.since[head]) + self.patience
        if snapshot.now >= due:
            return head
        draft.wake(due)
        return None

    def _grow_when_idle(self, draft: Draft) -> None:
        snapshot = draft.snapshot
        growing = [row for row in _in_start_order(snapshot) if may_scale(snapshot, row) and _below_most(snapshot, row)]
        if not growing:
            return
        due = float(snapshot.jobs.touched.max()) + self.idle
        if snapshot.now < due:
            draft.wake(due)
            return
        for row in growing:
            for number, role in enumerate(snapshot.jobs.shape_at(row).roles):
                if role.name != "ps" and grow(draft, row, number, role.max):
                    break


def _in_start_order(snapshot: Snapshot) -> list[int]:
    rows = snapshot.jobs.running()
    ordered: list[int] = by_key(rows, snapshot.jobs.first_start[rows]).tolist()
    return ordered


def _below_most(snapshot: Snapshot, row: int) -> bool:
    shape, counts = snapshot.jobs.shape_at(row), snapshot.placements[row].counts
    return any(n < role.max for n, role in zip(counts, shape.roles, strict=True) if role.name != "ps")


def _relieve(draft: Draft, row: int) -> bool:
    """Whether the min workers of this job fit, after others gave up what that takes."""
    snapshot = draft.snapshot
    shape = snapshot.jobs.shape_at(row)
    request = tuple(0 if role.name == "ps" else role.min for role in shape.roles)
    free: IntArray = draft.soon()
    if place(snapshot, free, shape, request) is not None:
        return True
    keeps: dict[tuple[int, int], list[int]] = {}
    for victim in _in_start_order(snapshot):
        role = _workers(snapshot, victim)
        if role is None or not may_scale(snapshot, victim):
            continue
        if _give_up(snapshot, free, victim, role, keeps, (shape, request)):
            for (giver, number), nodes in keeps.items():
                draft.scale(giver, number, tuple(nodes))
            return True
    return False


def _give_up(
    snapshot: Snapshot,
    free: IntArray,
    victim: int,
    role: int,
    keeps: dict[tuple[int, int], list[int]],
    wanted: tuple[Shape, tuple[int, ...]],
) -> bool:
    """Gives up one worker after another, until the request fits or the victim is at its min."""
    shape, placement = snapshot.jobs.shape_at(victim), snapshot.placements[victim]
    servers = {n for i, nodes in enumerate(placement.nodes) if shape.roles[i].name == "ps" for n in nodes}
    stays = sorted(placement.nodes[role], key=lambda node: (node not in servers, node))
    vector = placement.vector(shape, role)
    while len(stays) > shape.roles[role].min:
        free[:, stays.pop()] += vector
        keeps[victim, role] = stays
        if place(snapshot, free, *wanted) is not None:
            return True
    return False


def _workers(snapshot: Snapshot, row: int) -> int | None:
    """The role that is scaled: the first that is no parameter server."""
    roles = snapshot.jobs.shape_at(row).roles
    return next((number for number, role in enumerate(roles) if role.name != "ps"), None)


def _start_first_that_fits(draft: Draft, waiting: Rows) -> None:
    snapshot, failed = draft.snapshot, set[tuple[int, int]]()
    for row in may_fit(draft, waiting).tolist():
        alike = (int(snapshot.jobs.shape[row]), int(snapshot.jobs.can[row]))
        placement = None if alike in failed else _place(snapshot, draft.free, row)
        if placement is not None:
            draft.start(row, placement)
            return
        failed.add(alike)


def _place(snapshot: Snapshot, free: IntArray, row: int) -> Placement | None:
    """All on one node. Else from the node that holds most of one role on, servers first, as many workers as fit."""
    shape = snapshot.jobs.shape_at(row)
    if shape.missing:
        return None
    elastic = bool(int(snapshot.jobs.can[row]) & Can.SIZE)
    whole = place(snapshot, free, shape)
    if whole is not None and len(whole.used_nodes()) == 1:
        return whole
    left = free.copy()
    first = int(max((room(snapshot.nodes, free, role) for role in shape.roles), key=lambda takes: takes.max()).argmax())
    order = [first, *(node for node in range(len(snapshot.nodes)) if node != first)]
    chosen: list[tuple[int, ...]] = [()] * len(shape.roles)
    for number in sorted(range(len(shape.roles)), key=lambda i: (shape.roles[i].name != "ps", i)):
        role, nodes = shape.roles[number], list[int]()
        takes = np.minimum(room(snapshot.nodes, left, role), role.replicas)
        for node in order:
            nodes.extend([node] * min(int(takes[node]), role.replicas - len(nodes)))
        if len(nodes) < (role.min if elastic and role.name != "ps" else role.replicas):
            return None
        for node in nodes:
            left[:, node] -= role.vector
        chosen[number] = tuple(nodes)
    return Placement(tuple(chosen))
