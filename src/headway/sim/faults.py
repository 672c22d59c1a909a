"""Simulated faults: nodes fail and are repaired, starts are refused, gangs have a slow replica.

A random number depends on the seed and on its subject only: the node and the number of its failure, or the job and the
number of its start. It never depends on earlier draws, so all policies meet the same faults.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.node import Nodes


@dataclass(frozen=True, slots=True)
class Outage:
    """A planned failure of one node."""

    node: str
    at: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExit:
    """A planned end of one replica."""

    job: str
    role: str
    index: int = 0
    after: float
    """Seconds after its gang is up."""
    code: int
    """Its exit code; 128 + N for signal N."""
    out_of_memory: bool = False
    attempt: int = 0
    """The start of the gang, counted from 1, in which the replica ends; 0 means every start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    outages: tuple[Outage, ...] = ()
    exits: tuple[ReplicaExit, ...] = ()
    mean_seconds_between: float = 0.0
    """Mean seconds from a node's repair to its next failure, exponentially distributed; 0 means no random failures."""
    mean_repair_seconds: float = 3600.0
    refused_starts: float = 0.0
    """Share of starts that a node refuses; the whole gang is then released."""
    stragglers: float = 0.0
    """Share of starts in which one replica is slow and slows its whole gang down."""
    straggler_speed: float = 0.5
    """Speed of a gang with a slow replica, relative to a healthy one."""


NO_FAULTS = Faults()


def chance(seed: int, *what: object) -> random.Random:
    """Random numbers for one subject, independent of all others."""
    return random.Random(":".join(map(str, (seed, *what))))  # noqa: S311  a simulation, not a secret


class NodeFaults:
    """The times at which each node goes down and comes up again."""

    def __init__(self, faults: Faults, nodes: Nodes, seed: int, now: float = 0.0) -> None:
        self.faults = faults
        self._seed = seed
        self._down: dict[int, int] = {}
        """By node: the number of failures that keep it down now."""
        self._changes: list[tuple[float, int, int, bool]] = []
        """Time, node, number of the random failure (-1 for a planned one), whether the node goes down."""
        for outage in faults.outages:
            if outage.node not in nodes.index:
                raise UserError(f"field outages: there is no node {outage.node!r}; name a node of the cluster")
            node = nodes.index[outage.node]
            if outage.at + outage.seconds > now:
                heapq.heappush(self._changes, (max(now, outage.at), node, -1, True))
                heapq.heappush(self._changes, (outage.at + outage.seconds, node, -1, False))
        if faults.mean_seconds_between > 0:
            for node in range(len(nodes)):
                self._fail(node, 0, now)

    @property
    def next(self) -> float:
        return self._changes[0][0] if self._changes else float("inf")

    @property
    def any_down(self) -> bool:
        return bool(self._down)

    def change(self, now: float) -> tuple[set[int], set[int]]:
        """Brings the nodes up to this time; returns those that went down and those that came up."""
        before = set(self._down)
        while self._changes and self._changes[0][0] <= now:
            at, node, number, down = heapq.heappop(self._changes)
            reasons = self._down.get(node, 0) + (1 if down else -1)
            self._down[node] = reasons
            if not reasons:
                del self._down[node]
            if number >= 0:
                if down:
                    seconds = chance(self._seed, "repair", node, number).expovariate(
                        1 / self.faults.mean_repair_seconds
                    )
                    heapq.heappush(self._changes, (at + seconds, node, number, False))
                else:
                    self._fail(node, number + 1, at)
        after = set(self._down)
        return after - before, before - after

    def _fail(self, node: int, number: int, after: float) -> None:
        seconds = chance(self._seed, "fail", node, number).expovariate(1 / self.faults.mean_seconds_between)
        heapq.heappush(self._changes, (after + seconds, node, number, True))


def with_ready(nodes: Nodes, down: Iterable[int], up: Iterable[int]) -> Nodes:
    """The same table, with the nodes in `down` not ready and those in `up` ready."""
    ready = nodes.ready.copy()
    ready[list(down)] = False
    ready[list(up)] = True
    ready.flags.writeable = False
    table = tuple(
        node if node.ready == is_ready else replace(node, ready=bool(is_ready))
        for node, is_ready in zip(nodes.nodes, ready, strict=True)
    )
    return replace(nodes, nodes=table, ready=ready, _masks={})


def refused(faults: Faults, seed: int, job: JobId, attempt: int) -> bool:
    """Whether a node refuses this start of the gang."""
    return faults.refused_starts > 0 and chance(seed, "refuse", job, attempt).random() < faults.refused_starts


def health(faults: Faults, seed: int, job: JobId, attempt: int) -> float:
    """Speed of this start of the gang, relative to a healthy one."""
    slow = faults.stragglers > 0 and chance(seed, "slow", job, attempt).random() < faults.stragglers
    return faults.straggler_speed if slow else 1.0
