"""One connection of a replica: its bytes, in plain or under TLS, and how far its greeting is.

Nothing here waits. A connection has no TLS of its own before its first byte: one that stays silent costs a descriptor.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass

from headway.progress_server.identity import KnownReplica
from headway.progress_server.messages import Connected, Greeting
from headway.progress_server.rates import MessageBudget


@dataclass(slots=True, eq=False)
class Connection:
    sock: socket.socket
    accepted: float
    """When it began; on the clock that never goes back, as all times here."""
    budget: MessageBudget
    peer: str = ""
    """The address that it comes from; empty on this machine's own socket."""
    tls: ssl.SSLContext | None = None
    greeting: Greeting | None = None
    """Its first message; None until that has come. Nothing more is read until it is known who sends it."""
    known: KnownReplica | None = None
    replica: Connected | None = None
    """Which replica it is; None until that is known."""
    asked: int | None = None
    """The request to save that it has not answered yet."""
    received: bytes = b""
    """What was read and is not yet a whole line, or waits because too many messages came."""
    outgoing: bytes = b""
    heard: float = 0.0
    """When it last sent anything."""
    served: float = 0.0
    """When it last had its turn."""
    beaten: float = 0.0
    """When it was last sent a heartbeat."""
    paused: bool = False
    """Nothing is read until the current second is over."""
    watched: int = 0
    """The events for which the selector watches it."""
    _secured: bool = False
    _handshake_writes: bool = False

    @property
    def is_open(self) -> bool:
        return self.sock.fileno() >= 0

    @property
    def holds(self) -> bool:
        """Whether it still is the replica that it was known as."""
        return self.known is None or self.known.holds()

    @property
    def beats(self) -> bool:
        """Whether it answers heartbeats."""
        return self.greeting is not None and self.greeting.beats

    @property
    def reads(self) -> bool:
        return not self.paused and (self.greeting is None or self.replica is not None)

    @property
    def writes(self) -> bool:
        return bool(self.outgoing) or self._handshake_writes

    def read(self, most: int) -> bytes:
        """What has come; nothing at the end of the connection. Raises BlockingIOError if nothing has come."""
        try:
            if self.tls is not None and not self._secured:
                self._handshake(self.tls)
            return self.sock.recv(most)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def write(self) -> None:
        """Sends what can be sent now."""
        if self.tls is not None and not self._secured:
            return
        try:
            sent = self.sock.send(self.outgoing)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        self.outgoing = self.outgoing[sent:]

    def say_last(self, line: bytes) -> None:
        """Sends one more line if that can be done at once; the connection is closed next."""
        self.outgoing += line
        with contextlib.suppress(OSError):
            self.write()

    def _handshake(self, tls: ssl.SSLContext) -> None:
        if not isinstance(self.sock, ssl.SSLSocket):
            self.sock = tls.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
        self._handshake_writes = False
        try:
            self.sock.do_handshake()
        except ssl.SSLWantWriteError:
            self._handshake_writes = True
            raise
        self._secured = True
