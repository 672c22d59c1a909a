"""How fast a job truly trains in a given configuration, relative to the one it asked for.

Plain forms with few coefficients: Amdahl's law over replicas and over cpu, and a loss for every partner role that sits
on another node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.core.job import Job
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.predict.scaling import PARALLEL, computes, plain_speed

SpeedOf = Callable[[Job, Placement, tuple[str, ...]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    parallel_replicas: float = PARALLEL
    """Share of the work that more replicas divide among them."""
    parallel_cpu: float = 0.97
    """Share of a replica's work that more cpu speeds up."""
    apart_loss: float = 0.15
    """Loss of speed when roles that exchange data are all on different nodes."""

    def __call__(self, job: Job, placement: Placement, kinds: tuple[str, ...]) -> float:
        replicas = plain_speed(job, placement.counts, self.parallel_replicas)
        return replicas * self._cpu(job, placement, kinds) * self._locality(job, placement)

    def _cpu(self, job: Job, placement: Placement, kinds: tuple[str, ...]) -> float:
        if placement.requests is None or CPU not in kinds:
            return 1.0
        factors = []
        for role, vector in zip(job.roles, placement.requests, strict=True):
            asked = role.amount(CPU)
            if vector is not None and computes(role.name) and asked:
                ratio = asked / max(1, vector[kinds.index(CPU)])
                factors.append(1.0 / ((1.0 - self.parallel_cpu) + self.parallel_cpu * ratio))
        return min(factors, default=1.0)

    def _locality(self, job: Job, placement: Placement) -> float:
        where = {role.name: set(nodes) for role, nodes in zip(job.roles, placement.nodes, strict=True)}
        pairs = [(role.name, other) for role in job.roles for other in role.near if where.get(other)]
        pairs = [(one, other) for one, other in pairs if where[one]]
        if not pairs:
            return 1.0
        remote = sum(1 for one, other in pairs if not where[one] & where[other])
        return 1.0 - self.apart_loss * remote / len(pairs)
