"""What no policy can beat where decisions cost nothing: a floor under mean completion time and makespan.

The cluster counts as one divisible machine that any job may fill, so nodes, gangs and fragmentation do not matter. Per
kind of resource, a job needs at least the area of its least demanding configuration, and at least the time of its
fastest one. This gives three floors under the mean completion time; the highest counts:

    alone   every job at its fastest, as if it were alone
    area    shortest remaining area first on the one machine: the optimum of the relaxed problem
    busy    the min mean of mean busy times (smallest area first, preemptive: the optimum for that), plus half of each
            job's fastest time, because on average a job's work lies at least that much before its end

The floor under the makespan: the latest fastest end, and for every moment the area submitted from then on.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.compare.scenario import Scenario
from headway.core.job import Can, Job, Role
from headway.core.node import FloatArray, Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU, MEMORY
from headway.sim.speed import ALONE, Speed
from headway.sim.world import World

MOST_SIZES = 4096
"""With more combinations of sizes than this, only the ends of the ranges are tried."""


@dataclass(frozen=True, slots=True)
class Need:
    """The least that one job takes under any policy."""

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
    """The earliest second at which the last job can end."""


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
    return Floor(completion, makespan - float(submit[0]))


def one_machine(submit: FloatArray, seconds: FloatArray, *, remaining: bool) -> tuple[float, float]:
    """Mean flow time and mean (mean busy time minus submission) of preemptive jobs, given in order of submission.

    With `remaining`, the job with the fewest seconds left goes first, which is optimal for flow time. Otherwise the
    job with the fewest seconds in all goes first, which is optimal for mean busy times.
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
    """The value over the reference; None if either is missing or the reference is zero."""
    return None if value is None or not reference else value / reference


def ratios(result: Mapping[str, object], floor_: Floor | None, clairvoyant: float | None) -> dict[str, float | None]:
    """A result over the best clairvoyant policy and over the floor."""
    jct = result["jct"]
    assert isinstance(jct, Mapping)
    makespan = result["makespan"]
    assert isinstance(makespan, float | int)
    return {
        "clairvoyant": ratio(jct["mean"], clairvoyant),
        "area": ratio(jct["mean"], floor_.completion if floor_ else None),
        "area_makespan": ratio(float(makespan), floor_.makespan if floor_ else None),
    }


# ── the least that a job needs ──────────────────────────────────────────────────────────────────────────────

Configuration = tuple[float, Sequence[int]]
"""A relative speed, and the amounts held, by kind."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Over all configurations of a job: the greatest speed, and by kind the least area per second of work."""

    speed: float
    areas: tuple[float, ...]


def needs_of(scenario: Scenario, seed: int = 0) -> list[Need]:
    """In the trace's order. Other nodes, neighbours and costs only slow a job down, so they are left out."""
    world, nodes = scenario.world(scenario.trace, seed), Nodes.of(scenario.nodes)
    return needs(scenario.trace.jobs, world.work, lambda job: reach(job, world, nodes))


def needs_by_size(jobs: Iterable[Job], work: Callable[[Job], float | None], speed: Speed, nodes: Nodes) -> list[Need]:
    """As `needs_of`, but every size is in the best place that the nodes really have, and no amount is changed."""

    def best(job: Job) -> Reach:
        return _reach(len(nodes.kinds), ((max(speed.at_size(job, counts, nodes), 1e-9), _amounts(job, counts, nodes))
                                         for counts in sizes(job)))  # fmt: skip

    return needs(jobs, work, best)


def needs(jobs: Iterable[Job], work: Callable[[Job], float | None], best: Callable[[Job], Reach]) -> list[Need]:
    known: dict[tuple[tuple[Role, ...], Can, str], Reach] = {}
    found = []
    for job in jobs:
        key = (job.roles, job.can, job.model)
        if key not in known:
            known[key] = best(job)
        seconds, one = work(job) or 0.0, known[key]
        fastest = seconds / one.speed if one.speed > 0 else 0.0
        found.append(Need(job.submit, fastest, tuple(seconds * area for area in one.areas)))
    return found


def reach(job: Job, world: World, nodes: Nodes) -> Reach:
    tried = list(_allowed(job))
    places = [place for counts in tried for place in _placements(job, counts, nodes)]
    held = [_held(job, place, nodes) for place in places]
    speeds = [world.speed(job, place, nodes, ALONE) for place in places]
    found = _reach(len(nodes.kinds), zip(speeds, held, strict=True))
    if len(tried) == 2:  # perhaps only the ends of a long range: the least amounts at the greatest speed
        areas = tuple(min(amounts) / found.speed if found.speed else 0.0 for amounts in zip(*held, strict=True))
        return Reach(found.speed, areas)
    return found


def _reach(kinds: int, configurations: Iterable[Configuration]) -> Reach:
    best, areas = 0.0, [math.inf] * kinds
    for speed, held in configurations:
        if speed > 0:
            best = max(best, speed)
            areas = [min(area, amount / speed) for area, amount in zip(areas, held, strict=True)]
    return Reach(best, tuple(0.0 if math.isinf(area) else area for area in areas))


def sizes(job: Job) -> list[tuple[int, ...]]:
    """All sizes that it may have, the smallest first."""
    every = itertools.product(*(range(role.min, role.max + 1) if role.max > role.min else (role.replicas,)
                                for role in job.roles))  # fmt: skip
    return sorted(every, key=lambda counts: (sum(counts), counts))


def _allowed(job: Job) -> Iterator[tuple[int, ...]]:
    """The sizes that a policy may give it."""
    if not job.can & (Can.SIZE | Can.SCALE):
        yield tuple(role.replicas for role in job.roles)
        return
    ranges = [range(role.min, role.max + 1) for role in job.roles]
    if math.prod(len(sizes) for sizes in ranges) <= MOST_SIZES:
        yield from itertools.product(*ranges)
    else:
        yield tuple(role.min for role in job.roles)
        yield tuple(role.max for role in job.roles)


def _placements(job: Job, counts: tuple[int, ...], nodes: Nodes) -> Iterator[Placement]:
    """All on one node of each accelerator type, as if it had room; with other amounts of cpu where that is allowed."""
    examples = {node.accelerator: number for number, node in enumerate(nodes.nodes)}
    for node in examples.values():
        plain = Placement(tuple((node,) * count for count in counts))
        yield plain
        if Can.RESIZE in job.can and CPU in nodes.kinds:
            for share in (0.0, 0.5, 1.0):
                yield Placement(plain.nodes, tuple(_resized(role, share, nodes) for role in job.roles))


def _resized(role: Role, share: float, nodes: Nodes) -> tuple[int, ...]:
    """Between almost no cpu and the role's limit, with almost no memory."""
    limit = max(dict(role.limit).get(CPU, 0), role.amount(CPU))
    other = {CPU: max(1, round(share * limit)), MEMORY: 1}
    return tuple(other.get(kind, role.amount(kind)) for kind in nodes.kinds)


def _held(job: Job, placement: Placement, nodes: Nodes) -> list[int]:
    counts = tuple(len(where) for where in placement.nodes)
    if placement.requests is None:
        return _amounts(job, counts, nodes)
    held = [0] * len(nodes.kinds)
    for count, role, changed in zip(counts, job.roles, placement.requests, strict=True):
        for kind, name in enumerate(nodes.kinds):
            held[kind] += count * (role.amount(name) if changed is None else changed[kind])
    return held


def _amounts(job: Job, counts: Sequence[int], nodes: Nodes) -> list[int]:
    return [
        sum(role.amount(name) * count for role, count in zip(job.roles, counts, strict=True)) for name in nodes.kinds
    ]
