"""Running the best-ranked jobs, whoever runs now: the step that preempting policies end in.

Choose first, then place. Where all replicas are alike (one role, one request, the same nodes) choosing is counting,
and exact. Otherwise each waiting job in turn looks for room: what is free, what is coming, and then what jobs ranked
behind it hold, the worst-ranked first and as few as will do.

A job is stopped only for one that ranks before it and that takes its place, so nobody is stopped and started again at
once. What a stop frees is given away in a later snapshot, when it is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray
from headway.core.placement import Placement, RoleShape, Shape, take
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place, place_asked
from headway.policies.placing.room import room
from headway.policies.steps.order import Key, by_key, ranks, stoppable, touchable
from headway.policies.steps.victims import still_needed
from headway.policies.value.times import Rows

_RUNNING = int(State.RUNNING)
LITTLE = 16
"""So little room is filled by looking for the least."""
TRIES = 6
SOON = 1.0
"""Seconds until the next waiting job may make room, where nothing happens before."""


def run_best(
    draft: Draft, key: Callable[[Rows], Key], *, margin: float = 0.0, placing: Callable[..., Placement | None] = place
) -> None:
    """Starts and stops jobs so that those with the least key run. `key` is asked only where there is a choice, and
    what it says of a job must not depend on who else is asked about.

    Where replicas are not alike, a running job counts as better by the margin; where they are, `placing` places.
    """
    snapshot = draft.snapshot
    waiting = snapshot.jobs.waiting()
    if not len(waiting):
        return
    role = _only_role(snapshot)
    if role is not None:
        soon = draft.soon() if snapshot.flights else draft.free
        slots = int(np.add.reduce(room(snapshot.nodes, soon, role)))
        if _slots_add_up(snapshot, role, slots):
            for row in _by_counting(draft, waiting, key, slots, role):
                placement = placing(snapshot, draft.free, snapshot.jobs.shape_at(row))
                if placement is not None:
                    draft.start(row, placement)
            return
    rows = touchable(snapshot, waiting)
    keys = key(rows)
    running = snapshot.jobs.state[rows] == _RUNNING
    _one_by_one(draft, by_key(rows, np.where(running, keys / (1.0 + margin), keys)))


# ── where all replicas are alike ────────────────────────────────────────────────────────────────────────────


def _only_role(snapshot: Snapshot) -> RoleShape | None:
    """The role that all jobs have, if every replica in the snapshot could take the place of every other."""
    shapes, known = snapshot.jobs.shapes, snapshot.nodes.known
    before = known.get("only role")
    if isinstance(before, tuple) and before[0] is shapes:
        role: RoleShape | None = before[1]
        return role
    role = _role_of_all(shapes)
    known["only role"] = (shapes, role)
    return role


def _role_of_all(shapes: Sequence[Shape]) -> RoleShape | None:
    first: RoleShape | None = None
    for shape in shapes:
        if len(shape.roles) != 1 or shape.elastic or shape.missing:
            return None
        role = shape.roles[0]
        if first is None:
            first = role
        elif role.asks != first.asks or role.constraint != first.constraint:
            return None
    return first if first is not None and first.asks else None


def _slots_add_up(snapshot: Snapshot, role: RoleShape, slots: int) -> bool:
    """Whether everybody holds what he asked for: not so after a resize, or where gangs run in part."""
    jobs, known = snapshot.jobs, snapshot.nodes.known
    asked = ("slots", role)
    capacity = known.get(asked)
    if capacity is None:
        capacity = known[asked] = int(room(snapshot.nodes, snapshot.nodes.capacity, role).sum())
    held = int(np.add.reduce(jobs.width[jobs.running()]))
    for flight in snapshot.flights.values():
        held += flight.towards.width() if flight.towards is not None else 0
    return slots + held == capacity


def _by_counting(draft: Draft, waiting: Rows, key: Callable[[Rows], Key], slots: int, role: RoleShape) -> list[int]:
    """Who starts now. Ranked are only waiting jobs that come before a running one, and running ones that come behind a
    waiting one: the other running ones stay, and the other waiting ones share what is left over.
    """
    snapshot = draft.snapshot
    width = snapshot.jobs.width
    if len(waiting) <= slots and int(width[waiting].sum()) <= slots:
        return _have_room(draft, waiting.tolist(), slots, role)
    running, may, keys = snapshot.jobs.running(), stoppable(snapshot), key(waiting)
    running_keys = key(running)
    if may is not None:
        running, running_keys = running[may], running_keys[may]
    worst = running_keys.item(running_keys.argmax()) if len(running_keys) else -math.inf
    passes = (keys < (np.inf if math.isnan(worst) else worst)).nonzero()[0]
    starting: list[int] = []
    leftover = slots
    if len(passes):
        new = keys[passes]
        behind = np.logical_not(running_keys <= new.item(new.argmin())).nonzero()[0]
        up, rows = running[behind], waiting[passes]
        held = width[up]
        order = ranks(np.concatenate((running_keys[behind], new)))
        leftover, chosen, stopped = _deal(
            order, np.concatenate((held, width[rows])), len(up), slots + int(np.add.reduce(held))
        )
        starting = [rows.item(number) for number in chosen]
        for number in stopped:
            draft.stop(up.item(number))
    if leftover:
        starting += _least(waiting, keys, passes, (width, leftover))
    return _have_room(draft, starting, slots, role)


def _deal(order: Rows, widths: IntArray, running: int, capacity: int) -> tuple[int, list[int], list[int]]:
    """In order, whatever still fits. The first so many run, the others wait: what is left over, which of the waiting
    come in, which of the running go. Most fit one after the other; only what comes behind those is looked at singly.
    """
    in_order = widths[order]
    filled = in_order.cumsum()
    fit = int(filled.searchsorted(capacity, "right"))
    first, stopped = order[:fit], list[int]()
    chosen: list[int] = (first[first >= running] - running).tolist()
    capacity -= filled.item(fit - 1) if fit else 0
    for number, width in zip(order[fit:].tolist(), in_order[fit:].tolist(), strict=True):
        if width <= capacity:
            capacity -= width
            if number >= running:
                chosen.append(number - running)
        elif number < running:
            stopped.append(number)
    return capacity, chosen, stopped


def _least(waiting: Rows, keys: Key, passed: Rows, space: tuple[IntArray, int]) -> list[int]:
    """Of the others, in order of their keys, whatever fits. Little room is filled by looking for the least, without
    sorting all; where too many of those are too wide, the narrow ones are picked out first.
    """
    width, capacity = space
    left: FloatArray = keys.astype(np.float64)
    left[passed] = np.inf
    gone, found = passed.tolist(), list[int]()
    for _ in range(TRIES if capacity <= LITTLE else 0):
        best = int(left.argmin())
        if not math.isfinite(left.item(best)):
            break
        gone.append(best)
        left[best] = np.inf
        row = waiting.item(best)
        if width.item(row) <= capacity:
            found.append(row)
            capacity -= width.item(row)
            if not capacity:
                return found
    fits = width[waiting] <= capacity
    fits[gone] = False
    narrow = fits.nonzero()[0]
    if len(narrow):
        ranked = waiting[by_key(narrow, keys[narrow])]
        found += ranked[choose(width[ranked], capacity)].tolist()
    return found


def _have_room(draft: Draft, rows: list[int], slots: int, role: RoleShape) -> list[int]:
    """Those for which there is room now; the others when what is coming has come."""
    snapshot = draft.snapshot
    if not rows:
        return []
    free = int(room(snapshot.nodes, draft.free, role).sum()) if snapshot.flights else slots
    width, found = snapshot.jobs.width, list[int]()
    for row in rows:
        if width.item(row) <= free:
            free -= width.item(row)
            found.append(row)
    return found


def choose(widths: npt.NDArray[np.integer], capacity: int) -> npt.NDArray[np.bool_]:
    """In order, whatever still fits: as many rounds as there are widths, not as there are jobs."""
    chosen = np.zeros(len(widths), np.bool_)
    candidates = np.flatnonzero(widths <= capacity)
    while len(candidates):
        sums = np.cumsum(widths[candidates])
        taken = int(np.searchsorted(sums, capacity, side="right"))
        if taken:
            chosen[candidates[:taken]] = True
            capacity -= int(sums[taken - 1])
            candidates = candidates[taken:]
        candidates = candidates[widths[candidates] <= capacity]
    return chosen


# ── where they are not ──────────────────────────────────────────────────────────────────────────────────────


def _one_by_one(draft: Draft, ranked: Rows) -> None:
    """Waiting jobs in order, up to the first for which room is made; the others look again when that is under way.

    One at a time, because room made for several at once would be dealt out otherwise once it is free, and somebody
    would have been stopped for nothing. A shape that found no room need not be tried again.
    """
    snapshot = draft.snapshot
    jobs = snapshot.jobs
    running = jobs.state[ranked] == _RUNNING
    soon = draft.soon()
    places = np.flatnonzero(~running)
    while len(places):
        here = int(places[0])
        row = int(ranked[here])
        if _start_or_claim(draft, soon, row):
            places = places[1:]
            continue
        behind = ranked[here + 1 :][running[here + 1 :]].tolist()
        victims = _victims(snapshot, soon, row, behind[::-1])
        if victims:
            for victim in victims:
                draft.stop(victim)
            draft.wake(snapshot.now + SOON)
            return
        waiting = ranked[places]
        places = places[(jobs.shape[waiting] != jobs.shape[row]) | (jobs.can[waiting] != jobs.can[row])]


def _start_or_claim(draft: Draft, soon: IntArray, row: int) -> bool:
    """Starts it where there is room now; else keeps from others the room that is coming."""
    snapshot = draft.snapshot
    placement = place_asked(snapshot, np.minimum(draft.free, soon), row)
    if placement is not None:
        draft.start(row, placement)
    else:
        placement = place_asked(snapshot, soon, row)
    if placement is None:
        return False
    take(soon, placement, snapshot.jobs.shape_at(row))
    return True


def _victims(snapshot: Snapshot, soon: IntArray, row: int, behind: list[int]) -> list[int]:
    """As few of the jobs behind as make room, worst-ranked first; none where even all are not enough."""
    if not behind or _placed_without(snapshot, soon, row, behind) is None:
        return []
    few, many = 0, len(behind)
    while many - few > 1:
        middle = (few + many) // 2
        if _placed_without(snapshot, soon, row, behind[:middle]) is None:
            few = middle
        else:
            many = middle
    found = _placed_without(snapshot, soon, row, behind[:many])
    assert found is not None
    placement, pot = found
    take(pot, placement, snapshot.jobs.shape_at(row))
    return _needed(snapshot, soon, row, still_needed(snapshot, pot, dict.fromkeys(behind[:many])))


def _needed(snapshot: Snapshot, soon: IntArray, row: int, victims: list[int]) -> list[int]:
    """Without those that another place for the job spares, the best-ranked spared first."""
    needed = victims
    for victim in victims if len(victims) > 1 else []:
        others = [other for other in needed if other != victim]
        if others and _placed_without(snapshot, soon, row, others) is not None:
            needed = others
    return needed


def _placed_without(
    snapshot: Snapshot, soon: IntArray, row: int, victims: list[int]
) -> tuple[Placement, IntArray] | None:
    pot = soon.copy()
    for victim in victims:
        take(pot, snapshot.placements[victim], snapshot.jobs.shape_at(victim), +1)
    placement = place_asked(snapshot, pot, row)
    return None if placement is None else (placement, pot)
