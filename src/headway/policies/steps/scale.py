"""Choosing sizes of jobs that can be scaled, in a given order.

Waiting jobs start at the size that is worth most. For one that finds no room, others shrink, or jobs that rank far
behind are stopped. When no job waits, gangs that are apart gather, and running jobs grow.
"""

from __future__ import annotations

import numpy as np

from headway.core.draft import Draft
from headway.core.node import FloatArray, IntArray
from headway.core.snapshot import Snapshot
from headway.policies.placing.add_remove import SOON
from headway.policies.placing.affinity import place_near
from headway.policies.steps.elastic_start import start_elastic
from headway.policies.steps.gather import gather
from headway.policies.steps.grow import grow_into_idle
from headway.policies.steps.order import by_key, rows_to_stop
from headway.policies.steps.release import release_useless
from headway.policies.steps.shrink import shrink_for
from headway.policies.steps.start import fits_empty, left_waiting, may_fit
from headway.policies.steps.victims import fewest_to_stop
from headway.policies.value.terms import Terms
from headway.policies.value.times import Rows
from headway.policies.value.worth import Worth

TRIED = 6
"""Waiting jobs for which room is looked for in one plan."""
FAR_BEHIND = 2000.0
"""Ranks are thousandths of a doubling. A job is stopped only for one that is a fourth of its own size or smaller."""
AT_ONCE = 64
"""Waiting jobs for which a start is tried at once."""
OTHERS = 8
"""Where all these could be started: further ones, the first of each user before the second of any."""
ROUNDS = 8
"""How often the next jobs are tried in one plan, while none could be started."""
HOPELESS = 64
"""Shapes that not even the empty cluster could hold, and that are passed over in one plan. After that, jobs of their
users are not looked at."""


def use_sizes(draft: Draft, rank: FloatArray, terms: Terms, patience: float) -> None:
    """`rank` is by row; the smallest comes first."""
    snapshot = draft.snapshot
    worth = Worth(snapshot, terms)
    waiting = left_waiting(draft, snapshot.jobs.waiting())
    ordered = by_key(waiting, rank[waiting])
    _start(draft, may_fit(draft, ordered), worth)
    left = left_waiting(draft, ordered)
    busy = _make_room(draft, left.tolist(), rank, worth, patience) if len(left) else False
    release_useless(draft, worth)
    if not busy:
        gather(draft, worth)
        grow_into_idle(draft, worth)


def _start(draft: Draft, rows: Rows, worth: Worth) -> None:
    """Starts the first that fit. Jobs that fit nowhere do not keep those behind them from being tried.

    When none of the first fits, or all of them do, users take turns: somebody may have submitted thousands that only
    look as if they fitted, or thousands that fit.
    """
    jobs, started = draft.snapshot.jobs, len(draft.decided_rows())
    for _ in range(ROUNDS):
        first, rows = rows[:AT_ONCE], rows[AT_ONCE:]
        start_elastic(draft, first, worth)
        begun = len(draft.decided_rows()) - started
        if begun == AT_ONCE and len(rows):
            start_elastic(draft, _in_turn(draft.snapshot, rows)[:OTHERS], worth)
        if begun or not len(rows):
            return
        rows = _in_turn(draft.snapshot, rows[~np.isin(jobs.shape[rows], jobs.shape[first])])


def _in_turn(snapshot: Snapshot, rows: Rows) -> Rows:
    """The first of each user, then the second of each, and so on."""
    user = snapshot.jobs.user[rows]
    by_user = user.argsort(kind="stable")
    grouped = user[by_user]
    begins = np.maximum.accumulate(np.where(np.diff(grouped, prepend=-1) != 0, np.arange(len(rows)), 0))
    turn = np.empty(len(rows), np.int64)
    turn[by_user] = np.arange(len(rows)) - begins
    return rows[np.argsort(turn, kind="stable")]


def _make_room(draft: Draft, left: list[int], rank: FloatArray, worth: Worth, patience: float) -> bool:
    """Makes room for the first job that is worth it. Returns whether what is free must be left alone for now."""
    snapshot, tried, hopeless, soon = draft.snapshot, set[int](), set[int](), draft.soon()
    without_hope = set[str]()
    for row in left:
        shape = int(snapshot.jobs.shape[row])
        if shape in tried or shape in hopeless:
            continue
        user = snapshot.jobs.job(row).user
        if len(tried) == TRIED:
            return False
        if len(hopeless) >= HOPELESS and user in without_hope:
            continue
        if not fits_empty(snapshot, row):
            hopeless.add(shape)
            without_hope.add(user)
            continue
        tried.add(shape)
        path = worth.path(row)
        if place_near(snapshot, soon, snapshot.jobs.shape_at(row), path[0], worth.terms.affinity) is not None:
            return True  # room is being made already
        forced = snapshot.now - float(snapshot.jobs.since[row]) >= patience
        if shrink_for(draft, row, path, worth, forced=forced) is not None:
            return True
        if _stop_behind(draft, row, rank, soon, worth):
            return True
    return False


def _stop_behind(draft: Draft, row: int, rank: FloatArray, soon: IntArray, worth: Worth) -> bool:
    """Stops running jobs that rank behind, the worst first, as few as the min size of this job needs; or none."""
    snapshot = draft.snapshot
    may_stop = rows_to_stop(snapshot)
    behind = may_stop[rank[may_stop] > rank[row] + FAR_BEHIND]
    worst_first = behind[np.argsort(-rank[behind], kind="stable")].tolist()
    victims = [victim for victim in worst_first if draft.decided(victim) is None]
    shape, least = snapshot.jobs.shape_at(row), worth.path(row)[0]
    found = fewest_to_stop(
        snapshot, soon, row, victims, lambda pot: place_near(snapshot, pot, shape, least, worth.terms.affinity)
    )
    if found is None:
        return False
    for victim in found[1]:
        draft.stop(victim)
    draft.wake(snapshot.now + SOON)
    return True
