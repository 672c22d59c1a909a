"""Giving back what is not used: replicas that do not make a job faster, and cpu that it holds and leaves idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headway.core.draft import Draft
from headway.core.job import Can
from headway.core.placement import Placement
from headway.core.quantity import CPU, MEMORY
from headway.policies.placing.add_remove import SOON, may_scale, without
from headway.policies.steps.cool_down import rested_on
from headway.policies.steps.shrink import cheapest_gift
from headway.policies.value.worth import MARK, Worth

SMALLEST = 100
"""Thousandths of a core below which no replica is cut."""
WORTHWHILE = 0.1
"""The min share of a role's cpu that a cut must free."""
SATURATED = 0.85
"""A job that uses at least this share of what it was left with may well want more."""
NOTICED = 0.9
"""A job was slowed down by a cut if it uses less than this share of what it used before."""
SETTLED = 300.0
"""Seconds without a change after which what a job uses is taken for what it needs."""


@dataclass(frozen=True, slots=True)
class Idle:
    """When cpu is cut, and how far."""

    below: float = 0.2
    """A job that uses less than this share of what it holds leaves the rest idle."""
    headroom: float = 1.0
    """Share that is left above what is used."""


def release_useless(draft: Draft, rows: Iterable[int], worth: Worth) -> None:
    """Takes away replicas, the loneliest first, as long as the job is at least as fast without them."""
    for row in rows:
        if draft.decided(row) is not None or not may_scale(draft.snapshot, row) or not worth.known(row):
            continue
        if worth.cut(row):
            continue
        before = now = draft.snapshot.placements[row]
        role: int | None = None
        while (gift := cheapest_gift(worth, row, now, role)) is not None:
            after = without(now, gift.role, gift.nodes)
            if worth.speed(row, after) < worth.speed(row, now):
                break
            now, role = after, gift.role
        if role is not None and now != before and rested_on(draft, row, worth.terms):
            draft.scale(row, role, now.nodes[role])
            draft.wake(draft.snapshot.now + SOON)


def release_cpu(draft: Draft, rows: Iterable[int], worth: Worth, idle: Idle) -> None:
    """Cuts the cpu of replicas to what the job uses plus a share; gives it back where that was too little.

    Usage is measured for the whole job, so all roles are taken to use the same part of what they hold. It is a mean and
    does not show bursts. A cut was too deep if the job then uses less than before, or all it has. Such a job gets back
    all but a thousandth of a core of what it asked for. That missing thousandth is the mark that it must not be cut
    again.
    """
    for row in rows:
        snapshot = draft.snapshot
        used = snapshot.used_cpu.get(row)
        if used is None or not used > 0 or draft.decided(row) is not None:
            continue
        if CPU in snapshot.nodes.kinds and int(snapshot.jobs.can[row]) & Can.RESIZE:
            change = _cpu_change(draft, row, 1000.0 * used, idle)
            if change is not None and rested_on(draft, row, worth.terms):
                role, cpu = change
                draft.resize(row, role, cpu, max(_holds(draft, row, role, MEMORY), 1))
                draft.wake(snapshot.now + SOON)


def _cpu_change(draft: Draft, row: int, used: float, idle: Idle) -> tuple[int, int] | None:
    """Role and its new thousandths of a core; None where nothing is to change. The role that holds most comes first."""
    placement = draft.snapshot.placements[row]
    counts = {role: len(nodes) for role, nodes in enumerate(placement.nodes) if nodes}
    has = {role: _holds(draft, row, role, CPU) for role in counts}
    asked = {role: draft.role(row, role).amount(CPU) for role in counts}
    whole, total = (sum(counts[role] * each[role] for role in counts) for each in (asked, has))
    cut = [role for role in counts if asked[role] - has[role] > MARK]
    before = min((has[role] / asked[role] * whole / (1.0 + idle.headroom) for role in cut), default=0.0)
    if cut and (used >= SATURATED * total or used < NOTICED * before):
        back = [role for role in cut if _has_room(draft, row, placement, role, asked[role] - MARK)]
        return (back[0], asked[back[0]] - MARK) if back else None
    settled = float(draft.snapshot.jobs.since[row]) + SETTLED
    if used >= idle.below * whole or any(asked[role] - MARK == has[role] for role in counts):
        return None
    if draft.snapshot.now < settled:
        draft.wake(settled)
        return None
    for role in sorted(counts, key=lambda role: (-counts[role] * has[role], role)):
        wanted = max(SMALLEST, round(asked[role] * used * (1.0 + idle.headroom) / whole))
        if role not in cut and wanted < has[role] * (1.0 - WORTHWHILE) and not _wants_memory(draft, row, role):
            return role, wanted
    return None


def _has_room(draft: Draft, row: int, placement: Placement, role: int, cpu: int) -> bool:
    kind, nodes = draft.snapshot.nodes.kinds.index(CPU), placement.nodes[role]
    more = cpu - _holds(draft, row, role, CPU)
    return all(int(draft.free[kind, node]) >= more * nodes.count(node) for node in set(nodes))


def _wants_memory(draft: Draft, row: int, role: int) -> bool:
    """A resize names memory too, at least 1: a replica that holds none would begin to hold some."""
    return MEMORY in draft.snapshot.nodes.kinds and not _holds(draft, row, role, MEMORY)


def _holds(draft: Draft, row: int, role: int, kind: str) -> int:
    snapshot = draft.snapshot
    if kind not in snapshot.nodes.kinds:
        return 0
    vector = snapshot.placements[row].vector(snapshot.jobs.shape_at(row), role)
    return int(vector[snapshot.nodes.kinds.index(kind)])
