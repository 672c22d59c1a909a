"""The true speed of a job in a given configuration, relative to the one it requested.

It depends on replicas, cpu per replica, accelerators, ps/worker locality, on crossing nodes and domains, and on
neighbours. A job whose model has a profile is as fast as the profile says. Others follow forms with few coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headway.core.job import Job, JobId, computes
from headway.core.node import Nodes, types_named
from headway.core.placement import Placement
from headway.core.quantity import CPU
from headway.core.scaling import workers_per_node
from headway.estimates.models.profiles import Layout, Profile
from headway.estimates.models.scaling import PARALLEL, plain_speed


@dataclass(frozen=True, slots=True)
class SharingEffect:
    """What sharing its nodes gives a job and costs it."""

    cpu: tuple[float, ...] | None = None
    """Per role: thousandths of a core that a replica can use; None if that is its request."""
    neighbours: float = 0.0
    """Share of its busiest node's other accelerators that other jobs hold."""


ALONE = SharingEffect()
"""No other job is on its nodes."""
SpeedOf = Callable[[Job, Placement, Nodes, SharingEffect], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    parallel_replicas: float = PARALLEL
    """Share of the work that replicas do in parallel."""
    parallel_cpu: float = 0.97
    """Share of a replica's work that more cpu speeds up."""
    apart_loss: float = 0.15
    """Loss of speed when roles that exchange data are all on different nodes."""
    node_loss: float = 0.0
    """Loss of speed when a gang is spread over several nodes; only for jobs without a profile."""
    domain_loss: float = 0.0
    """Loss of speed when a gang is in more than one topology domain."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """By model. If empty, every job follows the plain forms, and a trace's durations are used as they are."""
    accelerators: Mapping[str, float] = field(default_factory=dict)
    """Relative speeds by type, for models whose profile has none. If empty, all types are equally fast."""
    seconds_on: Mapping[JobId, Mapping[str, float]] = field(default_factory=dict)
    """By job: measured seconds by accelerator type. Declared seconds are those on the fastest type."""
    needs: Mapping[str, float] = field(default_factory=dict)
    """By job: the share of its requested cpu that its replicas can use; the rest is idle. Default: 1."""
    metered: bool = False
    """Whether the cpu that jobs really use is measured; see `usage`."""

    def __call__(self, job: Job, placement: Placement, nodes: Nodes, effect: SharingEffect = ALONE) -> float:
        as_asked, near = True, False
        for role, where in zip(job.roles, placement.nodes, strict=True):
            if len(where) < role.min:
                return 0.0
            as_asked = as_asked and len(where) == role.replicas
            near = near or bool(role.near)
        profile = self.profiles.get(job.model) if self.profiles else None
        if profile is not None:
            speed = self._profiled(profile, job, placement, nodes)
        else:
            speed = 1.0 if as_asked else plain_speed(job, placement.counts, self.parallel_replicas)
            if near:
                speed *= self._locality(job, placement)
        if placement.requests is not None or effect.cpu is not None:
            speed *= self._cpu(job, placement, nodes.kinds, effect)
        if (self.domain_loss or self.node_loss) and placement.width() > 1:
            speed *= self._spread(placement, nodes, profiled=profile is not None)
        if self.seconds_on and (seconds := self.seconds_on.get(job.id)):
            speed *= _measured_on(seconds, placement, nodes)
        elif self.accelerators or profile is not None:
            speed *= self._accelerator(job, placement, nodes, profile)
        return speed

    def at_size(self, job: Job, counts: tuple[int, ...], nodes: Nodes) -> float:
        """The speed with these replicas per role, in the best place of the cluster."""
        profile = self.profiles.get(job.model)
        if profile is None or any(count < role.min for role, count in zip(job.roles, counts, strict=True)):
            return plain_speed(job, counts, self.parallel_replicas)
        per_node = workers_per_node(job, nodes)
        asked = profile.throughput(Layout.asked(job, per_node))
        return profile.throughput(Layout.sized(job, counts, per_node)) / asked if asked > 0 else 0.0

    def _cpu(self, job: Job, placement: Placement, kinds: tuple[str, ...], effect: SharingEffect) -> float:
        if CPU not in kinds:
            return 1.0
        factors = []
        for number, role in enumerate(job.roles):
            asked: float = role.amount(CPU)
            vector = None if placement.requests is None else placement.requests[number]
            has: float = asked if vector is None else vector[kinds.index(CPU)]
            if effect.cpu is not None:
                has = max(has, effect.cpu[number])
            if job.id in self.needs:
                asked *= self.needs[job.id]
                has = min(has, asked)
            if has != asked and computes(role.name) and asked:
                ratio = asked / max(1, has)
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

    def _spread(self, placement: Placement, nodes: Nodes, *, profiled: bool) -> float:
        if not self.domain_loss and (profiled or not self.node_loss):
            return 1.0
        used = placement.used_nodes()
        factor = 1.0 - self.node_loss if len(used) > 1 and not profiled else 1.0
        crosses = self.domain_loss and len({int(nodes.domain[node]) for node in used}) > 1
        return factor * (1.0 - self.domain_loss) if crosses else factor

    def _accelerator(self, job: Job, placement: Placement, nodes: Nodes, profile: Profile | None) -> float:
        """The slowest replica sets the speed of the gang. A role that names its type was measured on that type."""
        own = profile.accelerators if profile is not None else {}
        kinds = {
            nodes.nodes[node].accelerator
            for role, where in zip(job.roles, placement.nodes, strict=True)
            if len(types_named(role.accelerator)) > 1 or not role.accelerator
            for node in where
        }
        return min((own.get(kind) or self.accelerators.get(kind, 1.0) for kind in kinds), default=1.0)

    def _profiled(self, profile: Profile, job: Job, placement: Placement, nodes: Nodes) -> float:
        """Speed relative to the requested size in the best place of this cluster."""
        asked = profile.throughput(Layout.asked(job, workers_per_node(job, nodes)))
        return profile.throughput(Layout.of(job, placement)) / asked if asked > 0 else 0.0


def _measured_on(seconds: Mapping[str, float], placement: Placement, nodes: Nodes) -> float:
    """Speed relative to the fastest type. The slowest replica decides; an unknown type counts as the slowest."""
    fastest, slowest = min(seconds.values()), max(seconds.values())
    known = {kind.lower(): value for kind, value in seconds.items()} | {"": fastest}
    return fastest / max(known.get(nodes.nodes[node].accelerator.lower(), slowest) for node in placement.used_nodes())
