"""The tail: the jobs that would complete last, so that shortest-first does not make them wait for ever.

Example: of 200 jobs, most complete within an hour, and three would complete after a day. Those three are the tail. They
come before other jobs, as long as together they hold no more than a share of the cluster.

A job's completion is expected at its age plus its time left. The tail is what lies near to the last few of all jobs and
far from the median. How long is long depends on the trace, so only the patience, which guards against starving, is in
seconds. The first jobs of the tail hold little together; they run on once they run. Further jobs must first have waited
for as long as they, and those before them, would delay the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.core.flags import any_of
from headway.core.node import BoolArray, FloatArray
from headway.core.placement import take
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.placing.room import Rooms, empty
from headway.policies.value.times import Rows, waited

FEW, LAST = 3, 0.015
"""The last few: this share of all jobs, and at least this number."""
WIDE = 8.0
"""A job wider than the tail's share, or in the way of a wide and shorter job, joins the tail when it has waited this
factor of the delay that it causes, and the patience.
"""
STARVING = 4.0
"""A job that has waited this factor of that time is in the tail, however long the others have waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The settings `tail_share`, `tail_near` and so on of `headway`, without their prefix."""

    share: float
    near: float
    far: float
    claim: float
    stay: float
    margin: float
    patience: float


def in_tail(snapshot: Snapshot, rows: Rows, seconds: FloatArray, share: FloatArray, tail: Tail) -> BoolArray:
    """Whether each job is in the tail, aligned with the rows. `seconds` are those left, `share` is of the cluster."""
    if not len(rows) or tail.share <= 0.0:
        return np.zeros(len(rows), np.bool_)
    state = snapshot.jobs.state[rows]
    had_to_wait, area = waited(snapshot, rows), share * seconds
    starving = np.maximum(tail.patience, WIDE * area)
    starved = had_to_wait >= starving
    eligible = (share <= tail.share) | starved

    # A job that is up stays in the tail a little longer.
    completion = snapshot.now - snapshot.jobs.submit[rows] + seconds
    completion = completion * np.where(state > int(State.WAITING), 1.0 + tail.margin, 1.0)
    last_first = (-completion).argsort(kind="stable")
    near = _near_the_last(completion, last_first, tail) | (had_to_wait >= STARVING * starving)

    together = _running_total(np.where(eligible, share, 0.0), last_first)
    is_first = _running_total(eligible.astype(np.float64), last_first) == 1
    within = eligible & near & ((together <= tail.share + 1e-9) | is_first)

    # A job that runs for as long as there are shorter ones delays those by its share of that time.
    waits = (state == int(State.WAITING)) & (share <= 1.0)
    work, widest = _of_shorter_jobs(area, np.where(waits, share, 0.0))
    waited_long = had_to_wait >= tail.claim * together * np.minimum(seconds, work)
    stays = (state == int(State.RUNNING)) & (together <= tail.stay)
    leaves_room = together + widest <= 1.0 + 1e-9
    found: BoolArray = within & (starved | ((waited_long | stays) & leaves_room))
    return found & ~_in_the_way(snapshot, rows, area, found, found & ~starved & (state == int(State.RUNNING)))


def _in_the_way(snapshot: Snapshot, rows: Rows, area: FloatArray, tail: BoolArray, may_leave: BoolArray) -> BoolArray:
    """Running jobs of the tail beside which a job of less area finds no node, although it would find one without them.

    Example: a long job holds one GPU of the only node with eight, and a job of five minutes needs all eight.
    """
    jobs, nodes = snapshot.jobs, snapshot.nodes
    if jobs.shapes.only_role is not None or not any_of(may_leave):  # replicas that are all alike fit beside each other
        return np.zeros(len(rows), np.bool_)
    shorter = (jobs.state[rows] == int(State.WAITING)) & (area < area[may_leave].max())
    beside = empty(nodes).copy()
    for row in rows[tail & (jobs.state[rows] == int(State.RUNNING))].tolist():
        take(beside, snapshot.placements[row], jobs.shape_at(row))
    left, whole = Rooms(nodes, beside), Rooms(nodes, empty(nodes))
    least = np.inf
    for number in np.unique(jobs.shape[rows[shorter]]).tolist():
        shape = jobs.shapes[number]
        wanted = [] if shape.missing else list(zip(shape.roles, shape.min, strict=True))
        if any(left.total(role) < count for role, count in wanted) and all(whole.total(r) >= n for r, n in wanted):
            least = min(least, float(area[shorter & (jobs.shape[rows] == number)].min()))
    blocked: BoolArray = may_leave & (area > least)
    return blocked


def _near_the_last(completion: FloatArray, last_first: Rows, tail: Tail) -> BoolArray:
    """Jobs that complete about as late as the last few of all, and much later than the median."""
    few = min(len(completion), max(FEW, int(np.ceil(LAST * len(completion)))))
    last_few = float(completion[last_first[few - 1]])
    middle = completion[last_first[[(len(completion) - 1) // 2, len(completion) // 2]]].tolist()
    near: BoolArray = completion >= max(tail.near * last_few, tail.far * (sum(middle) / 2.0))
    return near


def _running_total(amounts: FloatArray, order: Rows) -> FloatArray:
    """By job: the sum over it and all jobs before it in this order."""
    total = np.empty(len(amounts))
    total[order] = amounts[order].cumsum()
    return total


def _of_shorter_jobs(area: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of the jobs of less area: how long the whole cluster takes for them, and the widest share that one waits for."""
    order = area.argsort(kind="stable")
    work, widest, sorted_area = np.zeros(len(area)), np.zeros(len(area)), area[order]
    work[order] = sorted_area.cumsum() - sorted_area
    widest[order[1:]] = np.maximum.accumulate(wanted[order])[:-1]
    return work, widest
