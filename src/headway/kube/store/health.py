"""Which nodes count as lost. In doubt none does: what is lost by mistake trains twice, or not at all.

A node is lost when it was not ready for a while, or when its object was gone for a while. While all nodes are not
ready, or at least three and 55 %, none is lost: then the fault is in the network or the control plane, as Kubernetes'
own controller has it.

Whether a node was alive after a failure is asked of its Lease, which its kubelet renews every ten seconds. Example: one
replica of a gang exits with code 1, and its peers on other nodes hang. Was one of these nodes powered off, so that the
exit only follows from it? As soon as each of them has renewed its Lease after that, none was: the job has failed, and
nobody waits until the API server would have noticed a silent node. Only the order of our own reads counts, so clocks of
nodes may differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from headway.kube.inbox import LeaseRead

GONE_SECONDS = 40.0
"""A node whose object was deleted is lost after this: it may come back under its name, as pods of it do."""
FEW, SHARE = 3, 0.55
AGAIN_SECONDS = 2.0


@dataclass(slots=True)
class NodeHealth:
    lost_after: float = 60.0
    """Seconds that a node may be not ready."""
    nodes: set[str] = field(default_factory=set)
    """All that exist."""
    not_ready_since: dict[str, float] = field(default_factory=dict)
    absent_since: dict[str, float] = field(default_factory=dict)
    """Nodes that were deleted, and nodes that an allocation names but that do not exist."""
    alive_after: dict[str, float] = field(default_factory=dict)
    """By node: a time on the cluster's clock after which it renewed its Lease."""
    _asked: dict[str, float] = field(default_factory=dict)
    _renewed: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By node: the last renewal that was read, and when it was asked for."""

    def see(self, name: str, now: float, *, ready: bool) -> None:
        self.nodes.add(name)
        self.absent_since.pop(name, None)
        if ready:
            self.not_ready_since.pop(name, None)
        else:
            self.not_ready_since.setdefault(name, now)

    def lose(self, name: str, now: float) -> None:
        """Its object was deleted."""
        self.nodes.discard(name)
        self.not_ready_since.pop(name, None)
        self.absent_since.setdefault(name, now)

    def named(self, names: Collection[str], now: float) -> None:
        """Nodes that allocations name: those that do not exist are absent."""
        for name in names:
            if name and name not in self.nodes:
                self.absent_since.setdefault(name, now)

    def forget(self, names: Collection[str]) -> None:
        for name in names:
            self.absent_since.pop(name, None)
            self.alive_after.pop(name, None)
            self._asked.pop(name, None)
            self._renewed.pop(name, None)

    def gone(self, now: float) -> frozenset[str]:
        """Nodes whose pods count as lost."""
        if not self.not_ready_since and not self.absent_since:
            return frozenset()
        absent = {name for name, since in self.absent_since.items() if now - since >= GONE_SECONDS}
        if self.brakes():
            return frozenset(absent)
        silent = {name for name, since in self.not_ready_since.items() if now - since >= self.lost_after}
        return frozenset(silent | absent)

    def brakes(self) -> bool:
        """Whether so many nodes are not ready that this says nothing about any of them."""
        count = len(self.not_ready_since)
        return bool(count) and (count == len(self.nodes) or (count >= FEW and count / len(self.nodes) >= SHARE))

    def doubtful(self, now: float) -> frozenset[str]:
        """Nodes that are not ready or absent, and do not count as lost yet."""
        if not self.not_ready_since and not self.absent_since:
            return frozenset()
        return frozenset(self.not_ready_since.keys() | self.absent_since.keys()) - self.gone(now)

    def next(self, now: float) -> float:
        """When another node may be lost."""
        moments = [since + GONE_SECONDS for since in self.absent_since.values()]
        moments += [since + self.lost_after for since in self.not_ready_since.values()]
        return min((moment for moment in moments if moment > now), default=math.inf)

    # ── signs of life ──

    def ask(self, nodes: Collection[str], now: float, read: Callable[[str, float], None]) -> float:
        """Asks for the Leases of these nodes; returns when to ask again. Nothing is asked without a node."""
        for node in nodes:
            if now - self._asked.get(node, -math.inf) >= AGAIN_SECONDS:
                self._asked[node] = now
                read(node, now)
        return now + AGAIN_SECONDS if nodes else math.inf

    def take(self, message: LeaseRead) -> None:
        if not message.renewed:
            return
        before = self._renewed.get(message.node)
        if before is not None and message.asked < before[1]:
            return  # an answer that came late
        if before is not None and before[0] != message.renewed:
            self.alive_after[message.node] = before[1]
        self._renewed[message.node] = (message.renewed, message.asked)
