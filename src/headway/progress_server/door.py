"""The listening socket: takes connections, so many from each address, and waits while no descriptors are left."""

from __future__ import annotations

import errno
import selectors
import socket
import ssl

from headway.progress_server.address import actual, keep_alive, listen
from headway.progress_server.connection import Connection
from headway.progress_server.connections import Connections
from headway.progress_server.rates import MessageBudget, RateLimit

PAUSE_SECONDS = 0.5
SILENT_SECONDS = 1.0
ACCEPTS_PER_TURN = 64
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_TRY_NEXT = frozenset({errno.ECONNABORTED, errno.EINTR})


class Door:
    def __init__(
        self, address: str, connections: Connections, selector: selectors.BaseSelector, tls: ssl.SSLContext | None
    ) -> None:
        self._server = listen(address)
        self.address = actual(address, self._server, secure=tls is not None)
        self._connections, self._selector, self._tls = connections, selector, tls
        limits = connections.limits
        self._visits = RateLimit(limits.peer_burst, limits.peer_per_second)
        self._opens_at: float | None = None
        """When to accept again, while there are no descriptors left."""
        selector.register(self._server, selectors.EVENT_READ, "door")

    def accept(self, now: float) -> list[Connection]:
        """Takes the connections that wait. Returns those that have to go for it; they have not said who they are."""
        leaving: list[Connection] = []
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._server.accept()
            except OSError as error:
                if error.errno in _TRY_NEXT:
                    continue
                if error.errno in _NO_ROOM:
                    leaving += self._shut(now)
                return leaving
            peer = "" if sock.family == socket.AF_UNIX else str(address[0])
            if peer and not self._visits.allows(peer, now):
                sock.close()
                continue
            silent = self._connections.too_many_waiting(peer)
            if silent is not None:
                self._connections.remove(silent)
                leaving.append(silent)
            self._take(sock, peer, now)
        return leaving

    def reopen(self, now: float) -> None:
        if self._opens_at is not None and now >= self._opens_at:
            self._opens_at = None
            self._selector.register(self._server, selectors.EVENT_READ, "door")

    def close(self) -> None:
        self._server.close()

    def _take(self, sock: socket.socket, peer: str, now: float) -> None:
        sock.setblocking(False)
        keep_alive(sock)
        budget = MessageBudget(self._connections.limits.messages_per_second)
        connection = Connection(sock, now, budget, peer, self._tls)
        connection.watched = selectors.EVENT_READ
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _shut(self, now: float) -> list[Connection]:
        """No descriptors are left. The listening socket stays ready, so without a pause this would spin.

        One that has been silent for a while makes room.
        """
        self._selector.unregister(self._server)
        self._opens_at = now + PAUSE_SECONDS
        silent = self._connections.longest_waiting()
        return [] if silent is None or now - silent.accepted < SILENT_SECONDS else [silent]
