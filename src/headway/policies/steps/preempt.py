"""Running the best-ranked jobs: the last step of preempting policies.

First it chooses which jobs run, then it places them. Where all replicas are alike (one role, one request, the same
nodes), choosing is counting, and exact (`slots`). Otherwise each waiting job in turn looks for room: in what is free,
in what is coming, and then in what jobs ranked behind it hold, the worst-ranked first and as few as will do.

A job is stopped only for a job that ranks before it and takes its place. So no job is stopped and at once started
again. What a stop frees is given away in a later snapshot, when it is free.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headway.core.draft import Draft
from headway.core.node import IntArray
from headway.core.placement import Placement, take
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.pack import place, place_asked
from headway.policies.placing.room import room
from headway.policies.steps.order import by_key
from headway.policies.steps.slots import KeyOf, Ranked, may_stop, slots_add_up, start_by_counting
from headway.policies.steps.start import left_waiting
from headway.policies.steps.victims import still_needed
from headway.policies.value.times import Rows

_RUNNING = int(State.RUNNING)
SOON = 1.0
"""Seconds until the next waiting job may make room, if nothing happens before."""


def run_best(
    draft: Draft,
    key: KeyOf,
    *,
    key_of_running: KeyOf | None = None,
    margin: float = 0.0,
    placing: Callable[..., Placement | None] = place,
) -> None:
    """Starts and stops jobs so that those with the smallest key run.

    `key` is asked for all waiting jobs, and only where there is a choice. `key_of_running` is asked for all running
    jobs; without it, `key` is. Where replicas are not alike, a running job counts as better by the margin; where they
    are, `placing` places.
    """
    snapshot = draft.snapshot
    waiting, decided = left_waiting(draft, snapshot.jobs.waiting()), draft.decided_rows()
    if not len(waiting):
        return
    role = snapshot.jobs.shapes.only_role
    if role is not None and not decided:
        soon = draft.soon() if snapshot.flights else draft.free
        slots = int(np.add.reduce(room(snapshot.nodes, soon, role)))
        if slots_add_up(snapshot, slots):
            for row in start_by_counting(draft, key, key_of_running or key, slots, role):
                placement = placing(snapshot, draft.free, snapshot.jobs.shape_at(row))
                if placement is not None:
                    draft.start(row, placement)
            return
    new, up = Ranked(waiting, key(waiting)), may_stop(snapshot, key_of_running or key)
    if decided:
        free = ~np.isin(up.rows, decided)
        up = Ranked(up.rows[free], up.keys[free])
    # Running jobs are in front, so that a tie stops none.
    rows, keys = np.concatenate([up.rows, new.rows]), np.concatenate([up.keys / (1.0 + margin), new.keys])
    _one_by_one(draft, by_key(rows, keys))


def _one_by_one(draft: Draft, ranked: Rows) -> None:
    """Waiting jobs in order, up to the first for which room is made. The others look again when that is under way.

    One at a time: room made for several at once could go to other jobs once it is free, and jobs would have been
    stopped for nothing. A shape that found no room is not tried again.
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
        victims = fewest_behind(snapshot, soon, row, behind[::-1])
        if victims:
            for victim in victims:
                draft.stop(victim)
            draft.wake(snapshot.now + SOON)
            return
        waiting = ranked[places]
        places = places[(jobs.shape[waiting] != jobs.shape[row]) | (jobs.can[waiting] != jobs.can[row])]


def _start_or_claim(draft: Draft, soon: IntArray, row: int) -> bool:
    """Starts the job where there is room now; else keeps the room that is coming from other jobs."""
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


def fewest_behind(snapshot: Snapshot, soon: IntArray, row: int, behind: list[int]) -> list[int]:
    """As few of the jobs behind as make room, the worst-ranked first; none where even all are not enough."""
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
    """Leaves out victims that can be spared because the job fits elsewhere; the best-ranked are spared first."""
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
