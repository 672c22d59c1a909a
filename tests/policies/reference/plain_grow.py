"""Growing into idle capacity: running jobs get one more replica where it gains most, again and again.

A job does not grow where the estimate says that more replicas slow it down, where its estimate is not usable, or where
it saves less time than the change costs. It does not grow again before its cool-down is over. New replicas go next to
the job's own ones, on the fewest nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from headway.core.draft import Draft
from headway.core.node import IntArray
from headway.core.placement import Placement
from headway.policies.placing.add_remove import may_scale, next_nodes
from headway.policies.steps.cool_down import rested_on
from headway.policies.value.sizes import FURTHER
from headway.policies.value.worth import Worth


@dataclass(frozen=True, slots=True, order=True)
class GrowthStep:
    """One role of one job made larger. The best step compares as the smallest."""

    price: float
    """Minus the gain per share."""
    row: int
    role: int
    nodes: tuple[int, ...]
    """The nodes of the replicas that are added."""


def grow_into_idle(draft: Draft, rows: Iterable[int], worth: Worth) -> list[int]:
    """Grows these running jobs into what is free in the draft. Returns the jobs that grow.

    At most one role of each, because a plan decides once about a job. The other role can grow in a later plan. Rows
    about which the draft has decided already are skipped.
    """
    snapshot, free = draft.snapshot, draft.free.copy()
    sizes: dict[int, Placement] = {}
    roles: dict[int, int] = {}
    steps = []
    for row in rows:
        if draft.decided(row) is None and may_scale(snapshot, row) and worth.known(row) and not worth.cut(row):
            step = _best_step(worth, free, row, snapshot.placements[row], None)
            if step is not None and rested_on(draft, row, worth.terms):
                steps.append(step)
    heapq.heapify(steps)
    while steps:
        step = heapq.heappop(steps)
        row, now = step.row, sizes.get(step.row, snapshot.placements[step.row])
        vector = now.vector(snapshot.jobs.shape_at(row), step.role)
        if _takes(free, vector, step.nodes):
            sizes[row], roles[row] = now.with_role(step.role, (*now.nodes[step.role], *step.nodes)), step.role
        following = _best_step(worth, free, row, sizes.get(row, now), roles.get(row))
        if following is not None:
            heapq.heappush(steps, following)
    for row, placement in sizes.items():
        draft.scale(row, roles[row], placement.nodes[roles[row]])
    return list(sizes)


def _takes(free: IntArray, vector: IntArray, nodes: tuple[int, ...]) -> bool:
    """Takes the replicas out of what is free, if they still fit."""
    for done, node in enumerate(nodes):
        if (free[:, node] < vector).any():
            for other in nodes[:done]:
                free[:, other] += vector
            return False
        free[:, node] -= vector
    return True


def _best_step(worth: Worth, free: IntArray, row: int, now: Placement, only: int | None) -> GrowthStep | None:
    """The role and the number of further replicas that gain most per share; None where nothing is gained.

    Several at once are tried too: the first replica beyond a node may cost speed that the fourth brings back.
    """
    shape, terms = worth.snapshot.jobs.shape_at(row), worth.terms
    best: GrowthStep | None = None
    speed = worth.speed(row, now)
    if speed <= 0:
        return None
    seconds, value, share = worth.seconds(row, speed), worth.of(row, speed), worth.share(row, now.counts)
    for number, role in enumerate(shape.roles):
        if (only is not None and number != only) or len(now.nodes[number]) >= role.most:
            continue
        where = next_nodes(worth.snapshot, free, row, number, now, terms.affinity)
        most = min(len(where), role.most - len(now.nodes[number]))
        for count in [further for further in FURTHER if further <= most]:
            larger = now.with_role(number, (*now.nodes[number], *where[:count]))
            faster = worth.speed(row, larger)
            enough = speed * (1.0 + terms.margin * min(1.0, count / len(now.nodes[number] or (0,))))
            if faster < enough or seconds - worth.seconds(row, faster) <= terms.restart:
                continue
            gain = (worth.of(row, faster) - value) / max(worth.share(row, larger.counts) - share, 1e-9)
            step = GrowthStep(-gain, row, number, where[:count])
            best = step if gain > 0 and (best is None or step < best) else best
    return best
