"""When the jobs of a list have their turn, and which of them run now.

The shortest come first. But a job that would end late comes before them as soon as its latest start is near: the last
job of a list ends as late as its accelerators need anyway, and no later.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from headway.core.node import FloatArray
from headway.policies.value.lists import Demand, Types

TRIES = 3
CLOSE = 1.002
TAIL = 1.1


def turns(demand: Demand, member: Types, *, tail: float = TAIL) -> FloatArray:
    """Seconds until each job starts in its list. `tail`: the last end that is aimed at, as a multiple of what the types
    need anyway; 0: it does not count.
    """
    jobs = np.arange(len(member))
    seconds, area, at_most = demand.seconds[jobs, member], demand.area[jobs, member], demand.at_most[jobs, member]
    load = np.bincount(member, area, len(demand.slots)) / demand.slots
    aim = tail * max(float(load.max()), float(seconds.max())) if tail else np.inf
    key = np.where(demand.fixed, 0.0, area)
    start = np.zeros(len(member))
    for kind in range(len(demand.slots)):
        mine = (member == kind).nonzero()[0]
        if len(mine):
            order = np.lexsort((key[mine], demand.first[mine]))
            mine = mine[order]
            line = _Line(
                seconds[mine].tolist(), at_most[mine].tolist(), demand.width[mine].astype(np.intp).tolist(),
                [0, *(np.diff(demand.first[mine]).nonzero()[0] + 1).tolist(), len(mine)], int(demand.slots[kind]),
            )  # fmt: skip
            start[mine] = _aimed(line, aim)
    return start


class _Line(NamedTuple):
    """One list, in order."""

    seconds: list[float]
    at_most: list[float]
    width: list[int]
    groups: list[int]
    """Where jobs begin that wait for all before them, and the end."""
    slots: int


def _aimed(line: _Line, aim: float) -> FloatArray:
    """Aims earlier where the last end is later than it should be."""
    due, best, least = aim, None, np.inf
    for _ in range(TRIES):
        start, end = _timeline(line, due)
        if end < least:
            best, least = start, end
        if end <= aim * CLOSE or aim == np.inf:
            break
        due -= 0.7 * (end - aim)
    return np.array(best)


def _timeline(line: _Line, due: float) -> tuple[list[float], float]:
    """The start of each job, in order, and the last end. Jobs of a later group wait for those of the groups before."""
    took, width, groups = line.seconds, line.width, line.groups
    free = [0.0] * line.slots
    start = [0.0] * len(took)
    done = [False] * len(took)
    for begin, end in pairwise(groups):
        latest = [due - line.at_most[place] for place in range(begin, end)]
        urgent = sorted(range(begin, end), key=lambda place: latest[place - begin])
        next_, soon = begin, 0
        for _ in range(end - begin):
            while done[next_]:
                next_ += 1
            while done[urgent[soon]]:
                soon += 1
            job, other = next_, urgent[soon]
            if job != other and _then_late(free, took[job], width[job], width[other], latest[other - begin]):
                job = other
            done[job] = True
            start[job] = free[width[job] - 1]
            free = _after(free, took[job], width[job])
    return start, free[-1]


def _after(free: list[float], took: float, width: int) -> list[float]:
    """When each accelerator is free, in order, after a job that takes the first ones."""
    end = free[width - 1] + took
    if width == 1:
        at = bisect_right(free, end)
        return [*free[1:at], end, *free[at:]]
    at = bisect_right(free, end, width)
    return free[width:at] + [end] * width + free[at:]


def _then_late(free: list[float], took: float, width: int, other: int, latest: float) -> bool:
    """Whether the other job could not start in time after this one."""
    if free[min(len(free), width + other) - 1] <= latest:
        return False
    return _after(free, took, width)[other - 1] > latest
