"""Who would be latest: the jobs that make the tail of completion times, whatever their scale.

Shortest-first takes from the longest what it gives to others. How long is long depends on the trace, so nothing but the
patience, which guards against starving, is in seconds: a job is foreseen to complete at its age and what it has left,
and those near to the few that are foreseen to be last, and far from the middle one of all, are the tail. A few of them
cost the others little: the latest, as long as together they are few, are not stopped. Further ones must first have
waited for as long as they, and those before them, would hold up everybody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.value.times import Rows, waited

FEW, LAST = 3, 0.015
"""Of all jobs that are there, the last are this share, and at least so many."""
WIDE = 8.0
"""A job that is wider than the share for the latest, or in the way of a wide and shorter one, is among them only after
so many times as long as it would hold up everybody, and not before the patience is over.
"""
STARVING = 4.0
"""Whoever has waited for so many times that is among them however long the others have waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """As the settings of the same names say."""

    share: float
    near: float
    far: float
    claim: float
    stay: float
    margin: float
    patience: float


def latest(snapshot: Snapshot, rows: Rows, seconds: FloatArray, share: FloatArray, tail: Tail) -> BoolArray:
    """By row: whether it comes before the others of its class. `seconds` are those left, `share` is of the cluster."""
    if not len(rows) or tail.share <= 0.0:
        return np.zeros(len(rows), np.bool_)
    state = snapshot.jobs.state[rows]
    # Whoever is up stays among them a little longer.
    late = snapshot.now - snapshot.jobs.submit[rows] + seconds
    late = late * np.where(state > int(State.WAITING), 1.0 + tail.margin, 1.0)
    had_to_wait, area = waited(snapshot, rows), share * seconds
    starved = had_to_wait >= np.maximum(tail.patience, WIDE * area)
    counted = (share <= tail.share) | starved
    last_first = np.argsort(-late, kind="stable")
    together, number = np.empty(len(rows)), np.empty(len(rows))
    together[last_first] = np.cumsum(np.where(counted, share, 0.0)[last_first])
    number[last_first] = np.cumsum(counted[last_first])
    few = min(len(rows), max(FEW, int(np.ceil(LAST * len(rows)))))
    near = late >= max(tail.near * float(late[last_first[few - 1]]), tail.far * float(np.median(late)))
    near |= had_to_wait >= STARVING * np.maximum(tail.patience, WIDE * area)
    within = counted & near & ((together <= tail.share + 1e-9) | (number == 1))
    work, widest = _shorter(area, np.where((state == int(State.WAITING)) & (share <= 1.0), share, 0.0))
    # If it runs for as long as there are shorter ones, those are held up by its share of that time.
    long_ = had_to_wait >= tail.claim * together * np.minimum(seconds, work)
    stays = (state == int(State.RUNNING)) & (together <= tail.stay)
    in_nobodys_way = together + widest <= 1.0 + 1e-9
    found: BoolArray = within & (starved | ((long_ | stays) & in_nobodys_way))
    return found


def _shorter(area: FloatArray, wants: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of the jobs of less area: how long the whole cluster would take for them, and the widest of those that wait."""
    order = np.argsort(area, kind="stable")
    work, widest = np.zeros(len(area)), np.zeros(len(area))
    work[order] = np.cumsum(area[order]) - area[order]
    widest[order[1:]] = np.maximum.accumulate(wants[order])[:-1]
    return work, widest
