"""Bounds that hold for every policy: the cluster as one divisible machine, every job in its best place."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np

from headway.compare.bounds import Need, floor, needs_by_size, sizes
from headway.compare.scenario import Scenario
from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.quantity import CPU
from headway.sim.speed import Speed
from headway.workload.trace import Trace


def area_floor(case: Scenario) -> float:
    """Seconds below which no policy's mean completion time can be."""
    return floor(_needs(case), Nodes.of(case.nodes)).completion


def elastic_floor(trace: Trace, nodes: Nodes, speed: Speed) -> float:
    """The same where cpu may also be cut: the work takes at least `parallel_cpu` of the area that the job can use."""
    needs = []
    for job, need in zip(trace.jobs, needs_by_size(trace.jobs, trace.work, speed, nodes), strict=True):
        least = speed.parallel_cpu * min(1.0, speed.needs.get(job.id, 1.0))
        areas = tuple(area * least if kind == CPU else area for kind, area in zip(nodes.kinds, need.areas, strict=True))
        needs.append(replace(need, areas=areas))
    return floor(needs, nodes).completion


def most_met(case: Scenario) -> float:
    """The share of deadlines that no policy can exceed.

    Each job must be able to end in time alone in its fastest size. And in order of deadlines, the work of the jobs that
    count must fit before each deadline on one machine that had all jobs from the first submission on.
    """
    capacity = Nodes.of(case.nodes).capacity.sum(axis=1, dtype=np.float64)
    first = min(job.submit for job in case.trace.jobs)
    chosen, total = list[float](), 0.0
    needs = zip(case.trace.jobs, _needs(case), strict=True)
    for job, need in sorted(needs, key=lambda pair: pair[0].deadline or math.inf):
        if job.deadline is None or job.submit + need.fastest > job.deadline + 1e-6:
            continue
        seconds = max(area / whole for area, whole in zip(need.areas, capacity, strict=True) if whole)
        heapq.heappush(chosen, -seconds)
        total += seconds
        while total > job.deadline - first + 1e-6:
            total += heapq.heappop(chosen)
    asked = sum(job.deadline is not None for job in case.trace.jobs)
    return len(chosen) / max(asked, 1)


def fastest(job: Job, work: float, speed: Speed, nodes: Nodes) -> float:
    """Seconds alone in its fastest size."""
    return work / max(speed.at_size(job, counts, nodes) for counts in sizes(job))


def _needs(case: Scenario) -> list[Need]:
    """In the trace's order."""
    world = case.world(case.trace, 0)
    speed = world.speed if isinstance(world.speed, Speed) else Speed()
    return needs_by_size(case.trace.jobs, world.work, speed, Nodes.of(case.nodes))
