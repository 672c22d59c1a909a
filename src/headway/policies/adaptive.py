"""The smallest policy that uses every decision: it starts, stops, scales, resizes and moves jobs.

1. Waiting jobs start in order of priority, then arrival.
2. For a waiting job that does not fit, others give back what they hold beyond the asked-for size. Then, where its
   priority is higher, jobs of lower priority that can be saved are stopped.
3. When no job waits, running jobs grow: more replicas up to their max, then more cpu up to their limit.
4. When no job waits and a node is empty while another is shared, one job moves there.

What it must remember (when the last decision about a job was made) is in the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.plan import Because, Plan
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Snapshot
from headway.policies.placing.pack import place, place_any_size
from headway.policies.placing.room import fits_on
from headway.policies.ranges import Seconds
from headway.policies.steps.cool_down import cool_at, rested
from headway.policies.steps.start import start_in_order
from headway.policies.value.times import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    cool_down: Seconds = 5.0
    """Seconds for which a job is left alone after a decision about it."""
    patience: Seconds = 0.0
    """Seconds that a job must have waited before room is made for it."""
    worth_moving: Seconds = 5.0
    """Seconds of training that a job must have left to be moved or grown."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        draft = Draft(snapshot)
        waiting = start_in_order(draft, by_priority(snapshot, snapshot.jobs.waiting()), size=place_any_size)
        if len(waiting):
            self._make_room(draft, waiting)
        elif not snapshot.flights and not draft.plan().decisions:
            self._use_idle(draft)
        return draft.plan()

    def _make_room(self, draft: Draft, waiting: Rows) -> None:
        """Helps the first waiting job that can be helped, on a copy: all of it or nothing."""
        snapshot = draft.snapshot
        for row in by_priority(snapshot, waiting):
            ready_at = float(snapshot.jobs.since[row]) + self.patience
            if snapshot.now < ready_at:
                draft.wake(ready_at)
                continue
            if place_any_size(snapshot, draft.soon(), int(row)) is not None:
                return  # room is being made already
            for give in (_give_back, _stop_lower):
                trial = _trial(draft, int(row), self._victims(snapshot), give)
                if trial is not None:
                    draft.adopt(trial)
                    return

    def _victims(self, snapshot: Snapshot) -> list[int]:
        """Jobs that may be asked to give: the grown ones first, then lower priority, then least unsaved work."""
        jobs = snapshot.jobs
        trained = jobs.trained_seconds(snapshot.now)

        def cost(victim: int) -> tuple[bool, int, float]:
            return not _grown(snapshot, victim), int(jobs.priority[victim]), trained[victim] - jobs.saved[victim]

        willing = [row for row in jobs.running().tolist() if snapshot.now >= cool_at(snapshot, row, self.cool_down)]
        return sorted(willing, key=cost)

    def _use_idle(self, draft: Draft) -> None:
        snapshot = draft.snapshot
        left = snapshot.estimates.left(snapshot.now) if snapshot.estimates.known else None
        for row in snapshot.jobs.running().tolist():
            if rested(draft, row, self.cool_down) and (left is None or not left[row] < self.worth_moving):
                _spread_out(draft, row) or _grow(draft, row) or _more_cpu(draft, row)
            if draft.decided(row) is not None:
                return


Give = Callable[[Draft, int, int], None]
"""Takes something from a victim for a waiting job, in a draft."""


def _trial(draft: Draft, row: int, victims: list[int], give: Give) -> Draft | None:
    """The draft with room made by these victims, as few as will do; None where even all are not enough."""
    snapshot, trial = draft.snapshot, draft.copy()
    for count, victim in enumerate(victims):
        give(trial, victim, row)
        placement = place_any_size(snapshot, trial.soon(), row)
        if placement is None:
            continue
        here = placement.used_nodes()
        needed = [other for other in victims[: count + 1] if snapshot.placements[other].used_nodes() & here]
        return trial if len(needed) == count + 1 else _trial(draft, row, needed, give)
    return None


def _give_back(draft: Draft, victim: int, _row: int) -> None:
    """Takes back what the victim holds beyond the size that it asked for."""
    jobs, snapshot = draft.snapshot.jobs, draft.snapshot
    shape, placement = jobs.shape_at(victim), snapshot.placements[victim]
    allowed = Can(int(jobs.can[victim]))
    for number, role in enumerate(shape.roles):
        surplus = len(placement.nodes[number]) - role.replicas
        if surplus > 0 and Can.SCALE in allowed:
            draft.scale(victim, number, placement.nodes[number][: role.replicas])
            return
        if _cpu(snapshot, victim, number) > _asked_cpu(snapshot, victim, number) and Can.RESIZE in allowed:
            _resize(draft, victim, number, _asked_cpu(snapshot, victim, number))
            return


def _stop_lower(draft: Draft, victim: int, row: int) -> None:
    """Stops the victim, where its priority is lower and it can be saved."""
    jobs = draft.snapshot.jobs
    if jobs.priority[victim] < jobs.priority[row] and int(jobs.can[victim]) & Can.STOP:
        draft.stop(victim, Because.PREEMPTED)


def by_priority(snapshot: Snapshot, rows: Rows) -> Rows:
    """Highest priority first, then arrival."""
    ordered: Rows = rows[np.argsort(-snapshot.jobs.priority[rows], kind="stable")]
    return ordered


def _grow(draft: Draft, row: int) -> bool:
    """Adds one replica of the first role that takes one."""
    snapshot = draft.snapshot
    if not int(snapshot.jobs.can[row]) & Can.SCALE:
        return False
    shape, placement = snapshot.jobs.shape_at(row), snapshot.placements[row]
    for number, role in enumerate(shape.roles):
        if len(placement.nodes[number]) < role.max:
            fits = np.flatnonzero(fits_on(snapshot.nodes, draft.free, role))
            if len(fits):
                beside = [node for node in fits if node in placement.used_nodes()]
                draft.scale(row, number, (*placement.nodes[number], int((beside or list(fits))[0])))
                return True
    return False


def _more_cpu(draft: Draft, row: int) -> bool:
    """Gives all the cpu that its nodes have idle, up to the role's limit."""
    snapshot = draft.snapshot
    if CPU not in snapshot.nodes.kinds or not int(snapshot.jobs.can[row]) & Can.RESIZE:
        return False
    kind = snapshot.nodes.kinds.index(CPU)
    for number, role in enumerate(snapshot.jobs.job(row).roles):
        limit, now = dict(role.limit).get(CPU, 0), _cpu(snapshot, row, number)
        nodes = snapshot.placements[row].nodes[number]
        if limit <= now or not nodes:
            continue
        spare = min(int(draft.free[kind, node]) // nodes.count(node) for node in nodes)
        wanted = min(limit, now + spare)
        if wanted >= now * 1.1:
            _resize(draft, row, number, wanted)
            return True
    return False


def _spread_out(draft: Draft, row: int) -> bool:
    """Moves a job from a node that it shares to an empty one."""
    snapshot = draft.snapshot
    if not int(snapshot.jobs.can[row]) & Can.MOVE:
        return False
    here = snapshot.placements[row].used_nodes()
    shared = any(other != row and here & place_.used_nodes() for other, place_ in snapshot.placements.items())
    empty = np.all(draft.free == snapshot.nodes.capacity, axis=0)
    if not shared or not empty.any() or len(here) > 1:
        return False
    only_empty = np.where(empty, draft.free, 0).astype(np.int32)
    placement = place(snapshot, only_empty, snapshot.jobs.shape_at(row), snapshot.placements[row].counts)
    if placement is None:
        return False
    draft.move(row, placement)
    return True


def _grown(snapshot: Snapshot, row: int) -> bool:
    shape, placement = snapshot.jobs.shape_at(row), snapshot.placements[row]
    return any(
        len(placement.nodes[number]) > role.replicas or _cpu(snapshot, row, number) > _asked_cpu(snapshot, row, number)
        for number, role in enumerate(shape.roles)
    )


def _cpu(snapshot: Snapshot, row: int, role: int) -> int:
    if CPU not in snapshot.nodes.kinds:
        return 0
    vector = snapshot.placements[row].vector(snapshot.jobs.shape_at(row), role)
    return int(vector[snapshot.nodes.kinds.index(CPU)])


def _asked_cpu(snapshot: Snapshot, row: int, role: int) -> int:
    return snapshot.jobs.job(row).roles[role].amount(CPU)


def _resize(draft: Draft, row: int, role: int, cpu: int) -> None:
    memory = draft.snapshot.jobs.job(row).roles[role].amount(MEMORY)
    draft.resize(row, role, cpu, max(memory, 1))
