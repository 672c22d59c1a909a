"""Writes that wait: by rank, and within a rank namespaces take turns.

Example: a tenant has submitted ten thousand jobs that are refused. Each gets a status and an event. Another tenant's
only job is bound before all of them, and its status waits for one request of the first tenant, not for ten thousand.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from headway.kube.writes.write import Rank, Stage, Write

LOWEST_EVERY = 16
"""Each so manieth turn is the lowest rank's: nothing waits for ever."""


class WriteQueue:
    def __init__(self) -> None:
        self._ranks: list[OrderedDict[str, deque[Write]]] = [OrderedDict() for _ in Rank]
        """By rank, by namespace. The namespace whose turn is next comes first."""
        self._turn = 0
        self.counts = [0] * len(Rank)
        """By rank, with those that are no longer wanted."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    def put(self, write: Write) -> None:
        self._ranks[write.rank].setdefault(write.namespace, deque()).append(write)
        self.counts[write.rank] += 1

    def next(self) -> Write | None:
        """The write whose turn it is. The first of a namespace is the first to go."""
        self._turn += 1
        order = [rank for rank in Rank if self._ranks[rank]]
        for rank in reversed(order) if self._turn % LOWEST_EVERY == 0 else order:
            while self._ranks[rank]:
                write = self._pop(self._ranks[rank])
                if write.stage is Stage.QUEUED:
                    return write
        return None

    def waiting(self, rank: Rank, namespace: str) -> int:
        return len(self._ranks[rank].get(namespace, ()))

    def _pop(self, namespaces: OrderedDict[str, deque[Write]]) -> Write:
        namespace, writes = next(iter(namespaces.items()))
        write = writes.popleft()
        self.counts[write.rank] -= 1
        if writes:
            namespaces.move_to_end(namespace)
        else:
            del namespaces[namespace]
        return write
