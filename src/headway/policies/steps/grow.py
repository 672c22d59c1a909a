"""Growing into idle capacity: running jobs get one more replica where it gains most, again and again.

A job does not grow where the estimate says that more replicas slow it down, where its estimate is not usable, or where
it saves less time than the change costs. It does not grow again before its cool-down is over. New replicas go next to
the job's own ones, on the fewest nodes.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement
from headway.policies.placing.add_remove import next_nodes
from headway.policies.placing.room import Rooms
from headway.policies.steps.cool_down import rested_on
from headway.policies.value.columns import SizeColumns
from headway.policies.value.table import FURTHER
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth


class GrowthStep(NamedTuple):
    """One role of one job made larger. The best step compares as the smallest."""

    price: float
    """Minus the gain per share. Where nodes are not chosen yet, no more than it will be."""
    row: int
    role: int
    nodes: tuple[int, ...]
    """The nodes of the replicas that are added; empty where they are not chosen yet."""


def grow_into_idle(draft: Draft, worth: Worth) -> list[int]:
    """Grows running jobs into what is free in the draft. Returns the jobs that grow.

    At most one role of each, because a plan decides once about a job. The other role can grow in a later plan. Rows
    about which the draft has decided already are skipped. Nodes are chosen only for jobs whose turn comes.
    """
    snapshot, free = draft.snapshot, draft.free.copy()
    sizes: dict[int, Placement] = {}
    roles: dict[int, int] = {}
    steps = _first_steps(draft, worth)
    heapq.heapify(steps)
    while steps:
        step = heapq.heappop(steps)
        row, now = step.row, sizes.get(step.row, snapshot.placements[step.row])
        if not step.nodes:
            chosen = _best_step(worth, draft.free, row, now, None)
            if chosen is not None:
                heapq.heappush(steps, chosen)
            continue
        vector = now.vector(snapshot.jobs.shape_at(row), step.role)
        if _takes(free, vector, step.nodes):
            sizes[row], roles[row] = now.with_role(step.role, (*now.nodes[step.role], *step.nodes)), step.role
        following = _best_step(worth, free, row, sizes.get(row, now), roles.get(row))
        if following is not None:
            heapq.heappush(steps, following)
    for row, placement in sizes.items():
        draft.scale(row, roles[row], placement.nodes[roles[row]])
    return list(sizes)


def _first_steps(draft: Draft, worth: Worth) -> list[GrowthStep]:
    """A step for each job that may grow now. Of the others, the plan asks to be called for the first that would."""
    columns, now = worth.columns, draft.snapshot.now
    rooms = _rooms(draft, columns)
    places = [
        place for place in _might_grow(columns, rooms).tolist() if draft.decided(int(columns.rows[place])) is None
    ]
    due = columns.due[places]
    steps = []
    for place in [place for place, at in zip(places, due.tolist(), strict=True) if now >= at]:
        price = _best_price(columns, place, rooms[place])
        if price is not None:
            steps.append(GrowthStep(price, int(columns.rows[place]), 0, ()))
    for number in np.argsort(due, kind="stable").tolist():
        row, at = int(columns.rows[places[number]]), float(due[number])
        if now < at < draft.until and _best_step(worth, draft.free, row, draft.snapshot.placements[row], None):
            draft.wake(at)
    for row in columns.others:
        if draft.decided(row) is None and worth.known(row) and not worth.cut(row):
            step = _best_step(worth, draft.free, row, draft.snapshot.placements[row], None)
            if step is not None and rested_on(draft, row, worth.terms):
                steps.append(step)
    return steps


def _rooms(draft: Draft, columns: SizeColumns) -> list[int]:
    """By job of the columns: how many more replicas the free nodes take."""
    rooms, shapes = Rooms(draft.snapshot.nodes, draft.free), draft.snapshot.jobs.shapes
    by_shape = {number: rooms.total(shapes[number].roles[0]) for number in set(columns.shape.tolist())}
    return [by_shape[number] for number in columns.shape.tolist()]


def _might_grow(columns: SizeColumns, rooms: list[int]) -> Rows:
    """Places in the columns of the jobs that could gain enough if all that is free were in the best place."""
    terms = columns.worth.terms
    above = [table.fastest_above[count] if room > 0 else 0.0
             for table, count, room in zip(columns.tables, columns.count.tolist(), rooms, strict=True)]  # fmt: skip
    fastest = np.array(above, np.float64)
    gains = np.flatnonzero(fastest > columns.speed)
    saved: FloatArray = columns.seconds_at(columns.speed, gains) - columns.seconds_at(fastest, gains)
    found: Rows = gains[saved > terms.restart]
    return found


def _best_price(columns: SizeColumns, place: int, room: int) -> float | None:
    """The price of its best step if the nodes were the best ones; None where it would not gain enough."""
    worth, row, table = columns.worth, int(columns.rows[place]), columns.tables[place]
    count, speed, value = int(columns.count[place]), float(columns.speed[place]), float(columns.value[place])
    seconds, share, terms = worth.seconds(row, speed), float(columns.share[place]), worth.terms
    best: float | None = None
    for more in FURTHER:
        if more > room or count + more > table.span.most:
            break
        faster = table.speeds[count + more]
        enough = speed * (1.0 + terms.margin * min(1.0, more / max(count, 1)))
        if faster < enough or seconds - worth.seconds(row, faster) <= terms.restart:
            continue
        gain = (worth.of(row, faster) - value) / max(worth.share(row, (count + more,)) - share, 1e-9)
        best = -gain if gain > 0 and (best is None or -gain < best) else best
    return best


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
        has = len(now.nodes[number])
        if (only is not None and number != only) or has >= role.most:
            continue
        where = next_nodes(worth.snapshot, free, row, number, now, terms.affinity)
        most = min(len(where), role.most - has)
        for count in [further for further in FURTHER if further <= most]:
            faster = worth.speed_with(row, now, number, where[:count])
            enough = speed * (1.0 + terms.margin * min(1.0, count / max(has, 1)))
            if faster < enough or seconds - worth.seconds(row, faster) <= terms.restart:
                continue
            counts = (*now.counts[:number], has + count, *now.counts[number + 1 :])
            gain = (worth.of(row, faster) - value) / max(worth.share(row, counts) - share, 1e-9)
            step = GrowthStep(-gain, row, number, where[:count])
            best = step if gain > 0 and (best is None or step < best) else best
    return best
