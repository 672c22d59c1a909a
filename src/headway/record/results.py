"""From a tally to the figures by their stable names. Times are seconds; docs/compare.md has the definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.job import Job
from headway.core.node import FloatArray
from headway.core.quantity import CPU, MEMORY
from headway.core.states import OVER, State
from headway.record.metrics import Course, Tally
from headway.record.timeline import Gantt, Series, gantt, series

SHORTEST = 10.0
"""In slowdown, a shorter solo time counts as this many seconds: the usual guard against tiny jobs."""
UNFAIR = 1.05
"""A job counts as unfairly late above this: less is a matter of how often a cluster looks at its processes."""
_UNIT = {CPU: 1000.0, MEMORY: 1024.0}
"""Amounts are reported in cores and GiB."""


def result(tally: Tally) -> dict[str, Any]:
    courses = list(tally.courses.values())
    ended = [course.ended for course in courses if course.ended is not None]
    first, last = min((course.job.submit for course in courses), default=0.0), max(ended, default=0.0)
    return {
        "policy": tally.head.policy if tally.head else "",
        "cluster": tally.head.cluster if tally.head else "",
        **group(courses),
        "failed": sum(course.state is State.FAILED for course in courses),
        "cancelled": sum(course.state is State.CANCELLED for course in courses),
        "unfinished": sum(course.state not in OVER for course in courses),
        "makespan": max(0.0, last - first),
        "utilisation": utilisation(tally),
        "used": _used(tally),
        "held": _amounts(tally, tally.holdings.held),
        "stalled": _amounts(tally, tally.holdings.stalled),
        "fragmentation": _fragmentation(tally),
        "fairness": _fairness(tally, courses),
        "decisions": tally.decisions,
        "refused": tally.refused,
        "stops": sum(course.stops for course in courses),
        "cycles": tally.cycles,
        "users": by_name(tally, lambda job: job.user),
        "queues": by_name(tally, lambda job: job.queue),
        **({"worth": _worth(tally)} if tally.worth else {}),
        **({"trained": dict(tally.trained)} if tally.trained else {}),
    }


def group(courses: Sequence[Course]) -> dict[str, Any]:
    """The figures of all jobs, or of one user's or queue's."""
    done = [course for course in courses if course.state is State.FINISHED]
    asked = [course for course in courses if course.job.deadline is not None]
    return {
        "jobs": len(courses),
        "finished": len(done),
        "jct": spread([course.completion for course in done]),
        "wait": spread([course.waited for course in done]),
        "slowdown": spread([slowdown(course) for course in done]),
        "deadlines": {"met": sum(course.met for course in asked), "total": len(asked)},
    }


def _worth(tally: Tally) -> dict[str, float]:
    """For jobs whose value falls in steps: their value when they were done, and the most that it could be."""
    got = most = 0.0
    for course in tally.courses.values():
        steps = tally.worth.get(course.job.id, ())
        most += max((value for _, value in steps), default=0.0)
        if course.state is State.FINISHED and course.completion is not None:
            got += max((value for seconds, value in steps if course.completion <= seconds + 1e-6), default=0.0)
    return {"got": got, "most": most}


def by_name(tally: Tally, name: Callable[[Job], str]) -> dict[str, Any]:
    """Per user or queue; `held` is in seconds of the main resource. Empty if no job names one."""
    groups: dict[str, list[Course]] = {}
    unit = _UNIT.get(tally.holdings.main_kind, 1.0)
    for course in tally.courses.values():
        groups.setdefault(name(course.job), []).append(course)
    if set(groups) <= {""}:
        return {}
    return {key: {**group(found), "held": sum(c.area for c in found) / unit} for key, found in sorted(groups.items())}


def slowdown(course: Course) -> float | None:
    """Completion time over the time alone, at least 1."""
    completion = course.completion
    return None if completion is None else max(1.0, completion / max(course.solo, SHORTEST))


def spread(values: Iterable[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(known, [50, 95, 99])
    return {"mean": float(np.mean(known)), "p50": float(p50), "p95": float(p95), "p99": float(p99)}


def utilisation(tally: Tally) -> dict[str, float]:
    holdings = tally.holdings
    return {
        kind: round(holdings.held[i] / whole, 6)
        for i, (kind, whole) in enumerate(zip(holdings.kinds, holdings.capacity_area, strict=False))
        if whole
    }


def _used(tally: Tally) -> dict[str, float]:
    """Measured use, as a share of capacity like `utilisation`. Empty where nothing was measured."""
    holdings = tally.holdings
    if not holdings.used_known or CPU not in holdings.kinds:
        return {}
    whole = holdings.capacity_area[holdings.kinds.index(CPU)]
    return {CPU: round(1000 * holdings.used_area / whole, 6)} if whole else {}


def _amounts(tally: Tally, areas: Sequence[float]) -> dict[str, float]:
    return {kind: areas[i] / _UNIT.get(kind, 1.0) for i, kind in enumerate(tally.holdings.kinds) if areas[i]}


def _fragmentation(tally: Tally) -> dict[str, float]:
    holdings = tally.holdings
    whole = holdings.capacity_area[holdings.main] if holdings.capacity_area else 0.0
    return {
        "split": round(holdings.split_area / holdings.free_area, 6) if holdings.free_area else 0.0,
        "idle_while_waiting": round(holdings.idle_area / whole, 6) if whole else 0.0,
    }


def _fairness(tally: Tally, courses: Sequence[Course]) -> dict[str, Any]:
    capacity = main_capacity(tally)
    done = [course for course in courses if course.state is State.FINISHED]
    ratios = [finish_time_fairness(course, tally, capacity) for course in done]
    unfair = sum(_without_start(ratio, course) > UNFAIR for ratio, course in zip(ratios, done, strict=True))
    return {
        **spread(ratios),
        "worst": max(ratios, default=None),
        "unfair": unfair / len(ratios) if ratios else 0.0,
    }


def main_capacity(tally: Tally) -> float:
    if tally.nodes is None or not tally.nodes.kinds:
        return 0.0
    return float(tally.nodes.capacity[tally.holdings.main].sum())


def finish_time_fairness(course: Course, tally: Tally, capacity: float) -> float:
    """Completion time over what an equal share of the cluster among all jobs present would have given."""
    asked = asked_amount(course.job, tally.holdings.main_kind)
    contention = max(1.0, asked * course.present / capacity) if capacity else 1.0
    return (course.completion or 0.0) / max(course.solo * contention, 1e-9)


def _without_start(ratio: float, course: Course) -> float:
    """The ratio as if its processes had been up at once: what they need to come up is nobody's share."""
    completion = course.completion or 0.0
    return ratio * max(0.0, completion - course.coming_up) / completion if completion > 0 else ratio


def asked_amount(job: Job, kind: str) -> int:
    return sum(role.replicas * role.amount(kind) for role in job.roles)


# ── one run, ready to be compared ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    name: str
    seed: int
    result: dict[str, Any]
    completion: FloatArray
    """Seconds by job in the trace's order; NaN for a job that did not finish."""
    wait: FloatArray
    slowdown: FloatArray
    serials: dict[int, int]
    """Arrival number to position in the trace; only with pictures."""
    series: Series | None = None
    gantt: Gantt | None = None

    @property
    def finished(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return ~np.isnan(self.completion)


def outcome(tally: Tally, jobs: Sequence[Job], *, name: str = "", seed: int = 0) -> Outcome:
    result = tally.result()
    place = {job.id: number for number, job in enumerate(jobs)}
    columns = np.full((3, len(jobs)), np.nan)
    serials = {}
    for serial, course in tally.courses.items():
        number = place[course.job.id]
        serials[serial] = number
        if course.state is State.FINISHED:
            columns[:, number] = (course.completion, course.waited, slowdown(course))
    drawn: tuple[Series | None, Gantt | None] = (None, None)
    kept = tally.holdings.kept
    if kept is not None and tally.nodes is not None:
        first, nodes = min((job.submit for job in jobs), default=0.0), tally.nodes
        capacity = nodes.capacity[tally.holdings.main] if nodes.kinds else np.zeros(len(nodes), np.int32)
        drawn = (
            series(kept, first, tally.now, main_capacity(tally)),
            gantt(kept, nodes, capacity, (first, tally.now)),
        )
    known = {} if kept is None else serials
    return Outcome(name or result["policy"], seed, result, columns[0], columns[1], columns[2], known, *drawn)
