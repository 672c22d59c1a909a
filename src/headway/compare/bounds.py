"""What no schedule can beat, where decisions cost nothing: a floor under mean completion time and makespan.

The cluster is taken as one divisible machine that any job may fill wholly, so that nodes, gangs and fragmentation do
not matter. Per resource kind, a job needs at least the area of its least demanding configuration, and at least the time
of its fastest one. Three floors under the mean completion time follow, and the highest is taken:

    alone   every job at its fastest, as if nobody else were there
    area    shortest remaining area first on the one machine: the optimum of the relaxed problem
    busy    the least mean of mean busy times (smallest area first, preemptive: the optimum for that), plus half of
            each job's fastest time, because a job's work lies at least that much before its end on average

Under the makespan: the latest fastest end, and for every moment the area submitted from then on.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.node import FloatArray, Nodes


@dataclass(frozen=True, slots=True)
class Need:
    """The least that one job takes, whatever is decided about it."""

    submit: float
    fastest: float
    """Seconds in its fastest configuration."""
    areas: tuple[float, ...]
    """By kind: amount times seconds in its least demanding configuration."""


@dataclass(frozen=True, slots=True)
class Floor:
    completion: float
    """Mean seconds from submission to end; no policy's mean is below it."""
    makespan: float
    """Second at which the last job ends at the earliest."""


def floor(needs: Sequence[Need], nodes: Nodes) -> Floor:
    if not needs:
        return Floor(0.0, 0.0)
    submit = np.array([need.submit for need in needs])
    fastest = np.array([need.fastest for need in needs])
    order = np.argsort(submit, kind="stable")
    submit, fastest = submit[order], fastest[order]
    completion, makespan = float(fastest.mean()), float((submit + fastest).max())
    capacity = nodes.capacity.sum(axis=1, dtype=np.float64)
    for kind in np.flatnonzero(capacity):
        seconds = np.array([need.areas[kind] for need in needs])[order] / capacity[kind]
        if not seconds.any():
            continue
        flow, _ = one_machine(submit, seconds, remaining=True)
        _, busy = one_machine(submit, seconds, remaining=False)
        completion = max(completion, flow, busy + float(fastest.mean()) / 2)
        makespan = max(makespan, float((submit + np.cumsum(seconds[::-1])[::-1]).max()))
    return Floor(completion, makespan)


def one_machine(submit: FloatArray, seconds: FloatArray, *, remaining: bool) -> tuple[float, float]:
    """Preemptive, in order of submission: mean flow time and mean (mean busy time less submission).

    `remaining` prefers the least seconds left, which is optimal for flow; otherwise the least seconds in all, which is
    optimal for mean busy times.
    """
    ready: list[tuple[float, int]] = []
    left, flow, busy = seconds.tolist(), 0.0, 0.0
    begins, sizes, now, following = submit.tolist(), seconds.tolist(), 0.0, 0
    while following < len(begins) or ready:
        if not ready:
            now = max(now, begins[following])
        while following < len(begins) and begins[following] <= now:
            heapq.heappush(ready, (sizes[following], following))
            following += 1
        _, job = ready[0]
        until = now + left[job]
        if following < len(begins) and begins[following] < until:
            until = begins[following]
        worked = until - now
        if sizes[job] > 0:
            busy += ((now + until) / 2 - begins[job]) * worked / sizes[job]
        left[job] -= worked
        now = until
        if left[job] <= 1e-12 * max(1.0, now):
            heapq.heappop(ready)
            flow += now - begins[job]
        elif remaining:
            heapq.heapreplace(ready, (left[job], job))
    return flow / len(begins), busy / len(begins)


def ratio(value: float | None, reference: float | None) -> float | None:
    """How many times the reference; None where either is missing or the reference is zero."""
    return None if value is None or not reference else value / reference


def ratios(result: Mapping[str, object], floor_: Floor | None, clairvoyant: float | None) -> dict[str, float | None]:
    """A result's mean completion time against the best clairvoyant policy and against the floor."""
    jct = result["jct"]
    assert isinstance(jct, Mapping)
    makespan = result["makespan"]
    assert isinstance(makespan, float | int)
    return {
        "clairvoyant": ratio(jct["mean"], clairvoyant),
        "area": ratio(jct["mean"], floor_.completion if floor_ else None),
        "area_makespan": ratio(float(makespan), floor_.makespan if floor_ else None),
    }
