"""Whether nodes were alive after a failure: a kubelet renews its node's Lease every ten seconds.

Example: one replica of a gang exits with code 1, and its peers on other nodes hang. Was one of these nodes powered off,
so that the exit only follows from it? As soon as each of them has renewed its Lease after that, none was: the job has
failed, and nobody waits until the API server would have noticed a silent node.

Only the order of our own reads counts, so clocks of nodes may differ.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from headway.kube.work import LeaseRead
from headway.kube.worker import ApiWorker

AGAIN_SECONDS = 2.0


@dataclass(slots=True)
class Heartbeats:
    worker: ApiWorker
    alive_after: dict[str, float] = field(default_factory=dict)
    """By node: a time on the cluster's clock after which it renewed its Lease."""
    _asked: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By node: the last renewal that was read, and when it was asked for."""

    def ask(self, nodes: Collection[str], now: float) -> float:
        """Asks for the Leases of these nodes; returns when to ask again. Nothing is asked without a node."""
        for node in nodes:
            if now - self._asked.get(node, -math.inf) >= AGAIN_SECONDS:
                self._asked[node] = now
                self.worker.read_lease(node, now)
        return now + AGAIN_SECONDS if nodes else math.inf

    def take(self, message: LeaseRead) -> None:
        if not message.renewed:
            return
        before = self._seen.get(message.node)
        if before is not None and message.asked < before[1]:
            return  # an answer that came late
        if before is not None and before[0] != message.renewed:
            self.alive_after[message.node] = before[1]
        self._seen[message.node] = (message.renewed, message.asked)
