"""Speed profiles: how a model's throughput depends on the number of replicas and on where they are.

There are two forms, with coefficients that can be fitted. `AllReduce`: replicas compute with a fixed batch each, then
exchange gradients, on one node or across several. `Servers`: workers push to and pull from parameter servers, and one
batch is divided among the workers. `MeasuredProfile` looks up measured points instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from headway.core.job import Job, computes
from headway.core.placement import Placement


@dataclass(frozen=True, slots=True)
class Layout:
    """The part of a placement that matters to speed."""

    workers: int
    servers: int
    nodes: int
    """Number of nodes that hold workers."""
    local: float
    """Share of worker-server pairs that are on one node."""
    crossing: float = 0.0
    """Traffic on the busiest node's link, both ways, relative to a layout with every replica on its own node. More than
    1 where servers, or workers, share a link."""

    @classmethod
    def of(cls, job: Job, placement: Placement) -> Layout:
        workers = [node for role, where in zip(job.roles, placement.nodes, strict=True) if computes(role.name)
                   for node in where]  # fmt: skip
        servers = [node for role, where in zip(job.roles, placement.nodes, strict=True) if not computes(role.name)
                   for node in where]  # fmt: skip
        return cls.on(workers, servers)

    @classmethod
    def on(cls, workers: Sequence[int], servers: Sequence[int]) -> Layout:
        """By the node of each worker and server.

        A link carries what its node's servers send and what its workers fetch: measured, the two hardly overlap.
        """
        w, p = len(workers), len(servers)
        if not w or not p:
            return cls(w, p, len(set(workers)), 1.0)
        workers_on, servers_on = Counter(workers), Counter(servers)
        local = sum(count * workers_on[node] for node, count in servers_on.items())
        busiest = max(
            servers_on[node] * (w - workers_on[node]) + workers_on[node] * (p - servers_on[node])
            for node in workers_on | servers_on
        )
        return cls(w, p, len(workers_on), local / (w * p), busiest / max(w, p))

    @classmethod
    def asked(cls, job: Job, per_node: int = 0) -> Layout:
        """As requested, in the best place: on as few nodes as hold `per_node` workers each (0: one node holds all)."""
        return cls.sized(job, tuple(role.replicas for role in job.roles), per_node)

    @classmethod
    def sized(cls, job: Job, counts: tuple[int, ...], per_node: int = 0) -> Layout:
        """These replicas per role, in the best place."""
        workers = sum(count for role, count in zip(job.roles, counts, strict=True) if computes(role.name))
        servers = sum(counts) - workers
        return _best(workers, servers, per_node or max(1, workers))

    def distance(self, inside: float) -> float:
        """Time to exchange bytes, relative to a layout with every replica on its own node; inside a node the exchange
        takes `inside` of that.
        """
        return self.crossing + inside * self.local


@cache
def _best(workers: int, servers: int, per_node: int) -> Layout:
    """On as few nodes as possible, with the servers spread over them."""
    nodes = max(1, -(-workers // per_node))
    return Layout.on([number // per_node for number in range(workers)], [number % nodes for number in range(servers)])


class ProfileForm(Protocol):
    def __call__(self, layout: Layout) -> float:
        """Work per second. The unit is the same for all layouts of one model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce:
    """All times in seconds: compute per step, exchange inside a node and across nodes, and for each replica above two.

    With `overlap` 1 a step takes the sum of compute and exchange; with a larger value they overlap, down to the larger
    of both.
    """

    compute: float
    local: float
    local_more: float
    cross: float
    cross_more: float
    overlap: float = 1.0

    def __call__(self, layout: Layout) -> float:
        if layout.workers < 1:
            return 0.0
        more = max(0, layout.workers - 2)
        exchange = 0.0
        if layout.workers > 1:
            across = self.cross + self.cross_more * more
            # Inside a node at most four were measured; with more, the exchange is no slower than over the network.
            exchange = across if layout.nodes > 1 else min(across, self.local + self.local_more * more)
        step: float = (self.compute**self.overlap + exchange**self.overlap) ** (1.0 / self.overlap)
        return layout.workers / step


@dataclass(frozen=True, slots=True)
class Servers:
    """Seconds per step with p servers and w workers: a·batch/w + b + c·w/p + d·w + e·p.

    The exchange (c and d) was measured across nodes; between replicas on one node it takes `inside` of that. Bytes (c)
    that leave a node share its link.
    """

    a: float
    b: float
    c: float
    d: float
    e: float
    batch: float
    inside: float = 0.5

    def __call__(self, layout: Layout) -> float:
        workers, servers = layout.workers, layout.servers or layout.workers
        if workers < 1:
            return 0.0
        exchange = self.c * workers / servers * layout.distance(self.inside)
        exchange += self.d * workers * (1.0 - (1.0 - self.inside) * layout.local)
        return self.batch / (self.a * self.batch / workers + self.b + exchange + self.e * servers)


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """Measured points: (workers, nodes or servers) to work per second. Elsewhere, by the nearest points."""

    points: Mapping[tuple[int, int], float]
    by_servers: bool = False

    def __call__(self, layout: Layout) -> float:
        if layout.workers < 1 or not self.points:
            return 0.0
        wanted = (layout.workers, (layout.servers or layout.workers) if self.by_servers else layout.nodes)
        exact = self.points.get(wanted)
        if exact is not None:
            return exact
        near = sorted(self.points, key=lambda point: _distance(point, wanted))[:3]
        weights = [1.0 / (1e-9 + _distance(point, wanted)) for point in near]
        logs = [math.log(self.points[point] / point[0]) for point in near]
        per_worker = math.exp(sum(w * v for w, v in zip(weights, logs, strict=True)) / sum(weights))
        return per_worker * layout.workers


def _distance(one: tuple[int, int], other: tuple[int, int]) -> float:
    return sum(math.log(a / b) ** 2 for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, slots=True)
class Curve:
    """Loss by the share of training done, relative to the first loss: 1 / (b0·share + b1) + b2."""

    b0: float = 9.0
    b1: float = 1.0
    b2: float = 0.1

    def __call__(self, share: float) -> float:
        return 1.0 / (self.b0 * share + self.b1) + self.b2

    def share_to(self, loss: float) -> float:
        """The share of training after which the loss is at most this; infinite where it never is."""
        if loss <= self.b2:
            return math.inf
        return max(0.0, (1.0 / (loss - self.b2) - self.b1) / self.b0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known of one model."""

    form: ProfileForm
    curve: Curve = Curve()
    accelerators: Mapping[str, float] = field(default_factory=dict)
    """Speed of one replica by accelerator type, relative to the type on which the form was measured."""
    error: float = 0.0
    """Median of |fitted / measured - 1|."""

    def throughput(self, layout: Layout) -> float:
        return self.form(layout)
