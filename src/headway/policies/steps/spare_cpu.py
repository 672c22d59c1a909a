"""Idle cpu: lent to running jobs up to their limits, in place, and taken back when a job waits."""

from __future__ import annotations

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.quantity import CPU, MEMORY
from headway.core.snapshot import Snapshot
from headway.policies.steps.cool_down import rested

LEAST_GAIN = 1.1
"""Less than a tenth more is not worth a change."""


def lend_cpu(draft: Draft, cool_down: float) -> None:
    """Lends to running jobs whose limit is above what they hold: what their nodes have idle, to one role of each."""
    snapshot = draft.snapshot
    for row in _resizable(draft):
        for number, role in enumerate(snapshot.jobs.job(row).roles):
            wanted = min(dict(role.limit).get(CPU, 0), _held(snapshot, row, number) + _spare(draft, row, number))
            if wanted < _held(snapshot, row, number) * LEAST_GAIN or not _held(snapshot, row, number):
                continue
            if rested(draft, row, cool_down):
                draft.resize(row, number, wanted, max(role.amount(MEMORY), 1))
            break


def take_back_cpu(draft: Draft) -> None:
    """Takes back what running jobs hold beyond their request. What is given up is free in a later snapshot."""
    snapshot = draft.snapshot
    for row in _resizable(draft):
        if snapshot.placements[row].requests is None:
            continue
        for number, role in enumerate(snapshot.jobs.job(row).roles):
            if _held(snapshot, row, number) > role.amount(CPU) > 0:
                draft.resize(row, number, role.amount(CPU), max(role.amount(MEMORY), 1))
                draft.wake(snapshot.now + 1.0)
                break


def _resizable(draft: Draft) -> list[int]:
    """Running jobs of which nothing is decided yet."""
    snapshot, can = draft.snapshot, draft.snapshot.jobs.can
    rows = snapshot.jobs.running().tolist() if CPU in snapshot.nodes.kinds else []
    return [row for row in rows if int(can[row]) & Can.RESIZE and draft.decided(row) is None]


def _held(snapshot: Snapshot, row: int, role: int) -> int:
    """What each replica of the role holds for its training, without its overhead."""
    shape, kind = snapshot.jobs.shape_at(row), snapshot.nodes.kinds.index(CPU)
    return int(snapshot.placements[row].vector(shape, role)[kind]) - dict(shape.roles[role].overhead).get(kind, 0)


def _spare(draft: Draft, row: int, role: int) -> int:
    """Thousandths of a core by which each replica of the role could grow."""
    kind, nodes = draft.snapshot.nodes.kinds.index(CPU), draft.snapshot.placements[row].nodes[role]
    return min((int(draft.free[kind, node]) // nodes.count(node) for node in nodes), default=0)
