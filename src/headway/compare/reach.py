"""The least that jobs take in a simulated world, whatever is decided: what the floor under all policies stands on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from headway.compare.bounds import Need
from headway.compare.scenario import Scenario, Task, make_world
from headway.core.job import Can, Job, Role
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU, MEMORY
from headway.sim.speed import ALONE
from headway.sim.world import World

MOST_SIZES = 4096
"""More combinations of sizes than this are not tried one by one: ends of the ranges stand for them."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Of all configurations that a job may have: the greatest speed, and by kind the least area per second of work."""

    speed: float
    areas: tuple[float, ...]


def needs_of(scenario: Scenario, task: Task) -> list[Need]:
    """In the trace's order. Nodes, neighbours and costs only slow a job down, so they are left out."""
    world, nodes = make_world(scenario, task), Nodes.of(scenario.nodes)
    known: dict[tuple[tuple[Role, ...], Can, str], Reach] = {}
    needs = []
    for job in scenario.trace.jobs:
        key = (job.roles, job.can, job.model)
        if key not in known:
            known[key] = reach(job, world, nodes)
        work, found = world.work(job) or 0.0, known[key]
        fastest = work / found.speed if found.speed > 0 else 0.0
        needs.append(Need(job.submit, fastest, tuple(work * area for area in found.areas)))
    return needs


def reach(job: Job, world: World, nodes: Nodes) -> Reach:
    best, areas = 0.0, [math.inf] * len(nodes.kinds)
    sizes = list(_sizes(job))
    for placement in (place for counts in sizes for place in _configurations(job, counts, nodes)):
        speed = world.speed(job, placement, nodes, ALONE)
        if speed <= 0:
            continue
        best = max(best, speed)
        for kind, held in enumerate(_held(job, placement, nodes)):
            areas[kind] = min(areas[kind], held / speed)
    if len(sizes) == 2:  # perhaps the ends of a long range only: the least amounts at the greatest speed
        areas = [min(held) / best if best else 0.0 for held in zip(*_ends(job, sizes, nodes), strict=True)]
    return Reach(best, tuple(0.0 if math.isinf(area) else area for area in areas))


def _sizes(job: Job) -> Iterator[tuple[int, ...]]:
    if not job.can & (Can.SIZE | Can.SCALE):
        yield tuple(role.replicas for role in job.roles)
        return
    ranges = [range(role.least, role.most + 1) for role in job.roles]
    if math.prod(len(sizes) for sizes in ranges) <= MOST_SIZES:
        yield from itertools.product(*ranges)
    else:
        yield tuple(role.least for role in job.roles)
        yield tuple(role.most for role in job.roles)


def _configurations(job: Job, counts: tuple[int, ...], nodes: Nodes) -> Iterator[Placement]:
    """All on one node of each accelerator type, as if it had room; with other amounts of cpu where that may be."""
    examples = {node.accelerator: number for number, node in enumerate(nodes.nodes)}
    for node in examples.values():
        plain = Placement(tuple((node,) * count for count in counts))
        yield plain
        if Can.RESIZE in job.can and CPU in nodes.kinds:
            for share in (0.0, 0.5, 1.0):
                yield Placement(plain.nodes, tuple(_resized(role, share, nodes) for role in job.roles))


def _resized(role: Role, share: float, nodes: Nodes) -> tuple[int, ...]:
    """Between hardly any cpu and the role's limit; memory may be taken away wholly."""
    limit = max(dict(role.limit).get(CPU, 0), role.amount(CPU))
    other = {CPU: max(1, round(share * limit)), MEMORY: 1}
    return tuple(other.get(kind, role.amount(kind)) for kind in nodes.kinds)


def _held(job: Job, placement: Placement, nodes: Nodes) -> list[int]:
    held = [0] * len(nodes.kinds)
    for number, role in enumerate(job.roles):
        changed = placement.requests[number] if placement.requests is not None else None
        for kind, name in enumerate(nodes.kinds):
            amount = role.amount(name) if changed is None else changed[kind]
            held[kind] += len(placement.nodes[number]) * amount
    return held


def _ends(job: Job, sizes: list[tuple[int, ...]], nodes: Nodes) -> Iterator[list[int]]:
    for counts in sizes:
        for placement in _configurations(job, counts, nodes):
            yield _held(job, placement, nodes)
