"""Growing into idle capacity: running jobs get one more replica where it gains most, again and again.

A job does not grow where the estimate says that more replicas slow it down, where its estimate is not usable, or where
it saves less time than the change costs. It does not grow again before its cool-down is over. New replicas go next to
the job's own ones, on the fewest nodes.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.node import Asks, Constraint, FloatArray, IntArray
from headway.core.placement import Placement
from headway.policies.placing.add_remove import next_nodes, room_for_more
from headway.policies.placing.room import Rooms, room
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
    about which the draft has decided already are skipped. Jobs come by what they could gain at best; nodes are chosen
    when a job's turn comes.
    """
    snapshot, idle = draft.snapshot, IdleRoom(draft)
    sizes: dict[int, Placement] = {}
    roles: dict[int, int] = {}
    steps = _first_steps(draft, worth, idle)
    heapq.heapify(steps)
    while steps:
        step = heapq.heappop(steps)
        row, now = step.row, sizes.get(step.row, snapshot.placements[step.row])
        if step.nodes and idle.give(row, now, step):
            sizes[row], roles[row] = now.with_role(step.role, (*now.nodes[step.role], *step.nodes)), step.role
        following = _best_step(worth, idle, row, sizes.get(row, now), roles.get(row))
        if following is not None:
            heapq.heappush(steps, following)
    for row, placement in sizes.items():
        draft.scale(row, roles[row], placement.nodes[roles[row]])
    return list(sizes)


class IdleRoom:
    """What is free so far, and how many replicas of each request every node still takes."""

    def __init__(self, draft: Draft) -> None:
        self.snapshot = draft.snapshot
        self.free = draft.free.copy()
        self._takes: dict[tuple[Asks, Constraint], npt.NDArray[np.int64]] = {}
        self._full: set[int] = set()
        """Shapes of one role of which no more replicas fit. What is free only shrinks."""

    def takes(self, row: int, role: int) -> npt.NDArray[np.int64]:
        """By node: how many more replicas of this role fit, each holding what the present ones hold."""
        if self.snapshot.placements[row].requests is not None:
            return room_for_more(self.snapshot, self.free, row, role)
        shape = self.snapshot.jobs.shape_at(row).roles[role]
        if not shape.asks:
            return room(self.snapshot.nodes, self.free, shape)
        key = (shape.asks, shape.constraint)
        known = self._takes.get(key)
        if known is None:
            known = self._takes[key] = room(self.snapshot.nodes, self.free, shape).astype(np.int64)
        return known

    def is_full(self, row: int) -> bool:
        """Whether no node takes another replica of any role of this job."""
        number = self.snapshot.jobs.columns.shapes[row]
        if number in self._full:
            return True
        roles = self.snapshot.jobs.shapes[number].roles
        full = not any(self.takes(row, role).any() for role in range(len(roles)))
        if full and len(roles) == 1 and roles[0].asks and self.snapshot.placements[row].requests is None:
            self._full.add(number)
        return full

    def give(self, row: int, now: Placement, step: GrowthStep) -> bool:
        """Takes the replicas of a step out of what is free, if they still fit."""
        vector = now.vector(self.snapshot.jobs.shape_at(row), step.role)
        if not _taken(self.free, vector, step.nodes):
            return False
        nodes = list(set(step.nodes))
        for (asks, constraint), takes in self._takes.items():
            left = np.min([self.free[kind, nodes] // amount for kind, amount in asks], axis=0)
            takes[nodes] = np.where(self.snapshot.nodes.mask(constraint)[nodes], np.maximum(left, 0), 0)
        return True


def _first_steps(draft: Draft, worth: Worth, idle: IdleRoom) -> list[GrowthStep]:
    """A step for each job that may grow now. Of the others, the plan asks to be called for the first that would."""
    columns, now = worth.columns, draft.snapshot.now
    rooms = _rooms(draft, columns)
    places = [
        place for place in _might_grow(columns, rooms).tolist() if draft.decided(int(columns.rows[place])) is None
    ]
    due = columns.due[places]
    may = [place for place, at in zip(places, due.tolist(), strict=True) if now >= at]
    prices = _best_prices(columns, may, rooms) if may else []
    steps = [
        GrowthStep(price, int(columns.rows[place]), 0, ())
        for place, price in zip(may, prices, strict=True)
        if math.isfinite(price)
    ]
    for number in np.argsort(due, kind="stable").tolist():
        row, at = int(columns.rows[places[number]]), float(due[number])
        if now < at < draft.until and _best_step(worth, idle, row, draft.snapshot.placements[row], None):
            draft.wake(at)
    for row in columns.others:
        if draft.decided(row) is None and worth.known(row) and not worth.cut(row):
            step = _best_step(worth, idle, row, draft.snapshot.placements[row], None)
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
    fastest: FloatArray = np.where(np.array(rooms) > 0, columns.above, 0.0)
    gains = np.flatnonzero(fastest > columns.speed)
    saved: FloatArray = columns.seconds_at(columns.speed, gains) - columns.seconds_at(fastest, gains)
    found: Rows = gains[saved > terms.restart]
    return found


def _best_prices(columns: SizeColumns, places: list[int], rooms: list[int]) -> list[float]:
    """The price of the best step of each if its nodes were the best ones; infinite where it would not gain enough."""
    terms, more = columns.worth.terms, np.array(FURTHER)
    here = [columns.count[places], columns.speed[places], columns.value[places], columns.work[places]]
    count, speed, value, work = (column[:, None] for column in here)
    tables = [(columns.tables[place], int(columns.count[place])) for place in places]
    faster: FloatArray = np.array([table.with_more(number) for table, number in tables]).reshape(-1, len(FURTHER))
    enough = speed * (1.0 + terms.margin * np.minimum(1.0, more / np.maximum(count, 1)))
    fits = (more <= np.array([rooms[place] for place in places])[:, None]) & (faster > 0.0) & (faster >= enough)
    saved = work / speed - np.divide(work, faster, out=np.full(faster.shape, np.inf), where=faster > 0.0)
    fits &= saved > terms.restart
    gain = np.zeros(faster.shape)
    chosen, option = fits.nonzero()
    at = np.array(places, np.intp)[chosen]
    gain[chosen, option] = columns.values_at(at, faster[chosen, option]) - value[chosen, 0]
    share = np.maximum(columns.share_at(at, (count + more)[chosen, option]) - columns.share[at], 1e-9)
    gain[chosen, option] /= share
    best: list[float] = np.where(gain > 0.0, -gain, np.inf).min(axis=1).tolist()
    return best


def _taken(free: IntArray, vector: IntArray, nodes: tuple[int, ...]) -> bool:
    """Takes the replicas out of what is free, if they still fit."""
    for done, node in enumerate(nodes):
        if (free[:, node] < vector).any():
            for other in nodes[:done]:
                free[:, other] += vector
            return False
        free[:, node] -= vector
    return True


def _best_step(worth: Worth, idle: IdleRoom, row: int, now: Placement, only: int | None) -> GrowthStep | None:
    """The role and the number of further replicas that gain most per share; None where nothing is gained.

    Several at once are tried too: the first replica beyond a node may cost speed that the fourth brings back.
    """
    shape, terms = worth.snapshot.jobs.shape_at(row), worth.terms
    best: GrowthStep | None = None
    if idle.is_full(row):
        return None
    speed = worth.speed(row, now)
    rooms = [idle.takes(row, number) for number in range(len(shape.roles))]
    if speed <= 0:
        return None
    seconds, value, share = worth.seconds(row, speed), worth.of(row, speed), worth.share(row, now.counts)
    for number, role in enumerate(shape.roles):
        has = len(now.nodes[number])
        if (only is not None and number != only) or has >= role.most:
            continue
        where = next_nodes(worth.snapshot, rooms[number], number, now, terms.affinity)
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
