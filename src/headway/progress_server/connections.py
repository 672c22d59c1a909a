"""All connections: those that are not known yet, by peer, and those of known replicas, by job. How many there may be.

Nobody can take the places of others. A connection that is not known yet makes room for a newer one: the oldest of the
peer with the most. When all places of known replicas are taken, the job with the most connections gives one up.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

from headway.core.job import JobId
from headway.progress_server.connection import Connection
from headway.progress_server.messages import Connected, Sender

T = TypeVar("T", bound=Hashable)
_NONE: dict[Connection, None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    in_all: int = 10_000
    """Connections; a quarter of the places is for those that are not known yet."""
    waiting_per_peer: int = 64
    """Connections from one address that are not known yet."""
    per_replica: int = 64
    per_job: int = 4096
    greeting_seconds: float = 10.0
    """How long a connection may take to say which replica it is."""
    peer_burst: float = 256.0
    """Connections from one address at once; then `peer_per_second`."""
    peer_per_second: float = 64.0
    replica_burst: float = 128.0
    """Greetings of one replica at once; then `replica_per_second`."""
    replica_per_second: float = 4.0
    messages_per_second: int = 100
    """Of one replica, over all its connections."""
    beat_seconds: float = 4.0
    """How often a replica is sent a heartbeat."""
    silent_seconds: float = 50.0
    """A replica that answers heartbeats and sends nothing for this long is gone."""


@dataclass(slots=True)
class Connections:
    limits: ServerLimits
    waiting: dict[Connection, None] = field(default_factory=dict)
    """Not known yet; the oldest first."""
    known: dict[Connection, None] = field(default_factory=dict)
    """In the order of their last heartbeat."""
    _by_peer: dict[str, dict[Connection, None]] = field(default_factory=dict)
    _by_job: dict[JobId, dict[Connection, None]] = field(default_factory=dict)
    _by_replica: dict[Sender, dict[Connection, None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.waiting) + len(self.known)

    def all(self) -> list[Connection]:
        return [*self.waiting, *self.known]

    def of_job(self, job: JobId) -> Collection[Connection]:
        return self._by_job.get(job, _NONE).keys()

    def of_replica(self, sender: Sender) -> Collection[Connection]:
        return self._by_replica.get(sender, _NONE).keys()

    def add(self, connection: Connection) -> None:
        """Of connections of this machine's own socket there is no peer to be told apart."""
        self.waiting[connection] = None
        if connection.peer:
            self._by_peer.setdefault(connection.peer, {})[connection] = None

    def too_many_waiting(self, peer: str) -> Connection | None:
        """The connection that has to go before another one of this peer is taken; None if there is room."""
        own = self._by_peer.get(peer, _NONE)
        if len(own) >= self.limits.waiting_per_peer:
            return next(iter(own))
        if len(self.waiting) < max(1, self.limits.in_all // 4):
            return None
        return self.longest_waiting()

    def longest_waiting(self) -> Connection | None:
        """The oldest that is not known, of the peer with the most of them."""
        largest = max(self._by_peer.values(), key=len, default=self.waiting)
        return next(iter(largest), None)

    def too_many_known(self, connection: Connection, replica: Connected) -> Connection | None:
        """The connection that has to go so that this one may be this replica: itself, if its job has its share."""
        own, same = self.of_job(replica.job), self.of_replica(replica.sender)
        if len(same) >= self.limits.per_replica or len(own) >= self.limits.per_job:
            return connection
        if len(self.known) < self.limits.in_all - self.limits.in_all // 4:
            return None
        largest = max(self._by_job.values(), key=len)
        return next(reversed(largest)) if len(largest) > len(own) + 1 else connection

    def knows(self, connection: Connection) -> None:
        """The connection is known now: `replica` says who it is."""
        assert connection.replica is not None
        self._no_longer_waits(connection)
        self.known[connection] = None
        self._by_job.setdefault(connection.replica.job, {})[connection] = None
        self._by_replica.setdefault(connection.replica.sender, {})[connection] = None

    def remove(self, connection: Connection) -> None:
        self._no_longer_waits(connection)
        self.known.pop(connection, None)
        if connection.replica is not None:
            _remove(self._by_job, connection.replica.job, connection)
            _remove(self._by_replica, connection.replica.sender, connection)

    def beaten(self, connection: Connection) -> None:
        """Its next heartbeat comes after those of all others."""
        del self.known[connection]
        self.known[connection] = None

    def _no_longer_waits(self, connection: Connection) -> None:
        self.waiting.pop(connection, None)
        _remove(self._by_peer, connection.peer, connection)


def _remove(table: dict[T, dict[Connection, None]], key: T, connection: Connection) -> None:
    group = table.get(key)
    if group is not None:
        group.pop(connection, None)
        if not group:
            del table[key]
