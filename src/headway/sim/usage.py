"""The cpu that a job really uses, which may be less than it holds.

A worker uses its cpu while it computes, up to what it can use at all. While it exchanges gradients it waits, and
parameter servers work. The model's profile says which part of a step is which; a model without a profile computes all
the time. A gang below its min replicas uses nothing. If cpu above the requests is shared, a job uses all that it gets
in its parallel part, and its request in the rest.
"""

from __future__ import annotations

from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.estimates.models.profiles import AllReduce, Layout, ProfileForm, Servers
from headway.estimates.models.scaling import computes
from headway.sim.speed import SharingEffect, Speed, SpeedOf


def used_cores(speed: SpeedOf, job: Job, placement: Placement, nodes: Nodes, effect: SharingEffect) -> float | None:
    """Cores used by all replicas together; None if usage is not measured."""
    if effect.cpu is not None:
        parallel = speed.parallel_cpu if isinstance(speed, Speed) else 1.0
        each = (_shared(role.amount(CPU), cpu, parallel) for role, cpu in zip(job.roles, effect.cpu, strict=True))
        return sum(cpu * len(at) for cpu, at in zip(each, placement.nodes, strict=True)) / 1000
    return _metered(speed, job, placement, nodes) if isinstance(speed, Speed) and speed.metered else None


def _shared(asked: float, cpu: float, parallel: float) -> float:
    """Mean cpu use of one replica. In its serial part it uses no more than its request."""
    return cpu if cpu <= asked or asked <= 0 else asked / ((1.0 - parallel) + parallel * asked / cpu)


def _metered(speed: Speed, job: Job, placement: Placement, nodes: Nodes) -> float:
    if CPU not in nodes.kinds or any(len(at) < role.least for role, at in zip(job.roles, placement.nodes, strict=True)):
        return 0.0
    profile, kind, used = speed.profiles.get(job.model), nodes.kinds.index(CPU), 0.0
    busy = 1.0 if profile is None else computing(profile.form, Layout.of(job, placement))
    for number, (role, where) in enumerate(zip(job.roles, placement.nodes, strict=True)):
        vector = None if placement.requests is None else placement.requests[number]
        has = role.amount(CPU) if vector is None else vector[kind]
        if computes(role.name):
            used += len(where) * busy * min(has, speed.needs.get(job.id, 1.0) * role.amount(CPU))
        else:
            used += len(where) * (1.0 - busy) * has
    return used / 1000.0


def computing(form: ProfileForm, layout: Layout) -> float:
    """The share of a step during which workers compute."""
    throughput = form(layout)
    if throughput <= 0:
        return 0.0
    match form:
        case Servers():
            return min(1.0, (form.a * form.batch / layout.workers + form.b) * throughput / form.batch)
        case AllReduce():
            return min(1.0, form.compute * throughput / layout.workers)
    return 1.0
