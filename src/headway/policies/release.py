"""Giving back what is not used: replicas that do not make a job faster, and cpu that it holds and leaves idle."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.placement import Placement
from headway.core.quantity import CPU, MEMORY
from headway.policies.scale import SOON, may_scale
from headway.policies.shrink import cheapest_gift, without
from headway.policies.worth import Worth, rested

SMALLEST = 100
"""Thousandths of a core below which no replica is cut."""
WORTHWHILE = 0.1
"""Share of a role's cpu that must be at stake."""
SATURATED = 0.85
"""A job that uses so much of what it was left with is given more."""


def release_useless(draft: Draft, rows: Iterable[int], worth: Worth) -> None:
    """Takes away replicas, the loneliest first, as long as the job is at least as fast without them."""
    for row in rows:
        if draft.decided(row) is not None or not may_scale(draft.snapshot, row) or not worth.known(row):
            continue
        before = now = draft.snapshot.placements[row]
        role: int | None = None
        while (gift := cheapest_gift(worth, row, now, role)) is not None:
            after = without(now, gift.role, gift.nodes)
            if worth.speed(row, after) < worth.speed(row, now):
                break
            now, role = after, gift.role
        if role is not None and now != before and rested(draft, row, worth.terms):
            draft.scale(row, role, now.nodes[role])
            draft.wake(draft.snapshot.now + SOON)


def release_cpu(draft: Draft, rows: Iterable[int], worth: Worth, headroom: float) -> None:
    """Cuts the cpu of replicas to what the job uses and this share more; gives it back when that is too little.

    What is used is measured for the whole job, so that all roles are taken to use the same part of what they hold.
    """
    for row in rows:
        snapshot = draft.snapshot
        used = snapshot.used_cpu.get(row)
        if used is None or not used > 0 or draft.decided(row) is not None:
            continue
        if CPU in snapshot.nodes.kinds and int(snapshot.jobs.can[row]) & Can.RESIZE:
            change = _cpu_change(draft, row, 1000.0 * used, headroom)
            if change is not None and rested(draft, row, worth.terms):
                role, cpu = change
                memory = _holds(draft, row, role, MEMORY)
                draft.resize(row, role, cpu, max(memory, 1))
                draft.wake(snapshot.now + SOON)


def _cpu_change(draft: Draft, row: int, used: float, headroom: float) -> tuple[int, int] | None:
    """Role and its new thousandths of a core; None where all is well. The role that holds most comes first."""
    placement = draft.snapshot.placements[row]
    held = {role: _holds(draft, row, role, CPU) * len(nodes) for role, nodes in enumerate(placement.nodes) if nodes}
    total = sum(held.values())
    if not total:
        return None
    for role in sorted(held, key=lambda role: (-held[role], role)):
        now, asked = _holds(draft, row, role, CPU), draft.role(row, role).amount(CPU)
        wanted = max(SMALLEST, min(asked, round(now * used * (1.0 + headroom) / total)))
        if now < asked and used >= SATURATED * total:
            wanted = min(asked, 2 * now)  # it uses nearly all that it was left with: it may well want more
            if not _has_room(draft, placement, role, wanted - now):
                continue
        elif wanted >= now * (1.0 - WORTHWHILE):
            continue
        if wanted != now and not _wants_memory(draft, row, role):
            return role, wanted
    return None


def _has_room(draft: Draft, placement: Placement, role: int, more: int) -> bool:
    kind, nodes = draft.snapshot.nodes.kinds.index(CPU), placement.nodes[role]
    return all(int(draft.free[kind, node]) >= more * nodes.count(node) for node in set(nodes))


def _wants_memory(draft: Draft, row: int, role: int) -> bool:
    """A resize names memory too, and never none: a replica that holds none would begin to hold some."""
    return MEMORY in draft.snapshot.nodes.kinds and not _holds(draft, row, role, MEMORY)


def _holds(draft: Draft, row: int, role: int, kind: str) -> int:
    snapshot = draft.snapshot
    if kind not in snapshot.nodes.kinds:
        return 0
    vector = snapshot.placements[row].vector(snapshot.jobs.shape_at(row), role)
    return int(vector[snapshot.nodes.kinds.index(kind)])
