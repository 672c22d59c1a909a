"""A small server in a thread of its own: one line of JSON per message, both ways.

Every side is bounded. A line longer than 64 KiB ends the connection. At most 100 messages a second are read from a
connection; a replica that sends more fills its own socket, and the others are not slowed. Of several reports that wait
to be polled, only the newest of each replica is kept.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.core.errors import UserError
from headway.core.job import JobId
from headway.progress_server.messages import (
    Connected,
    Disconnected,
    Event,
    MessageError,
    Reported,
    Sender,
    event_of,
    hello_event,
    parse,
)

LONGEST_LINE = 64 * 1024
MESSAGES_PER_SECOND = 100
MOST_CONNECTIONS = 10_000


class ListenError(UserError):
    """The server cannot listen at this address."""


@dataclass(slots=True, eq=False)
class _Connection:
    sock: socket.socket
    replica: Connected | None = None
    """Its first message; None until that has come."""
    received: bytes = b""
    """What was read and is not yet a whole line, or waits because too many messages came."""
    outgoing: bytes = b""
    second: float = 0.0
    """When the current second began, in which `messages` are counted."""
    messages: int = 0
    paused: bool = False
    """Nothing is read until the current second is over."""


@dataclass(slots=True)
class _EventQueue:
    """Events that wait to be polled."""

    events: list[Event] = field(default_factory=list)
    reports: dict[Sender, Reported] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, event: Event) -> None:
        with self.lock:
            if isinstance(event, Reported):
                self.reports[event.sender] = event
            else:  # after the report that the replica sent before it
                waiting = self.reports.pop(event.sender, None)
                self.events.extend([event] if waiting is None else [waiting, event])

    def drain(self) -> list[Event]:
        with self.lock:
            events = [*self.events, *self.reports.values()]
            self.events, self.reports = [], {}
            return events


class ProgressServer:
    """Listens at `unix:/path` or `tcp:host:port`; port 0 takes any free one.

    `wake` is called from the server's thread after each event.
    """

    def __init__(self, address: str, wake: Callable[[], None] = lambda: None) -> None:
        self._server = _listen(address)
        self.address = _actual(address, self._server)
        self._wake = wake
        self._events = _EventQueue()
        self._connections: dict[int, _Connection] = {}
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ, "server")
        self._selector.register(self._wake_reader, selectors.EVENT_READ, "wake")
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="headway-listen", daemon=True)
        self._thread.start()

    def poll(self) -> list[Event]:
        """The events since the last poll; of each replica's reports only the newest."""
        return self._events.drain()

    def connected(self, job: JobId) -> list[Connected]:
        """The replicas of the job that are connected now."""
        with self._lock:
            replicas = [connection.replica for connection in self._connections.values()]
        return [replica for replica in replicas if replica is not None and replica.job == job]

    def save(self, job: JobId, request: int) -> None:
        """Ask every connected replica of the job that can save to do so."""
        self._send(job, {"save": request}, lambda replica: replica.can_save)

    def resize(self, job: JobId, replicas: Mapping[str, int], cpu: Mapping[str, float]) -> None:
        """Tell every connected replica of the job its new size; `cpu` is in cores by role."""
        for role in {replica.role for replica in self.connected(job)}:
            size = {"resize": {"replicas": dict(replicas), "cpu": cpu.get(role)}}
            self._send(job, size, lambda replica, role=role: replica.role == role)  # type: ignore[misc]

    def close(self) -> None:
        self._closing = True
        self._wake_thread()
        self._thread.join(timeout=5)
        if self.address.startswith("unix:"):
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, job: JobId, message: dict[str, Any], wanted: Callable[[Connected], bool]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            for connection in self._connections.values():
                replica = connection.replica
                if replica is not None and replica.job == job and wanted(replica):
                    connection.outgoing += line
        self._wake_thread()

    def _wake_thread(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"!")

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while not self._closing:
            for key, events in self._selector.select(timeout=0.5):
                if key.data == "server":
                    self._accept()
                elif key.data == "wake":
                    with contextlib.suppress(OSError):
                        self._wake_reader.recv(4096)
                else:
                    self._transfer(key.data, events)
            self._update_watches()
        for connection in list(self._connections.values()):
            self._drop(connection)
        for end in (self._server, self._wake_reader, self._wake_writer):
            end.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._server.accept()
        except OSError:
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            sock.close()
            return
        sock.setblocking(False)
        connection = _Connection(sock)
        with self._lock:
            self._connections[sock.fileno()] = connection
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _transfer(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE and connection.outgoing:
                with self._lock:
                    sent = connection.sock.send(connection.outgoing)
                    connection.outgoing = connection.outgoing[sent:]
            if events & selectors.EVENT_READ:
                data = connection.sock.recv(LONGEST_LINE)
                if not data:
                    self._drop(connection)
                    return
                connection.received += data
                self._read_lines(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)

    def _read_lines(self, connection: _Connection) -> None:
        now = time.monotonic()
        if now - connection.second >= 1.0:
            connection.second, connection.messages = now, 0
        while b"\n" in connection.received and connection.messages < MESSAGES_PER_SECOND:
            line, connection.received = connection.received.split(b"\n", 1)
            connection.messages += 1
            self._handle(connection, line)
        if b"\n" not in connection.received and len(connection.received) > LONGEST_LINE:
            self._drop(connection)
        connection.paused = connection.messages >= MESSAGES_PER_SECOND

    def _handle(self, connection: _Connection, line: bytes) -> None:
        try:
            message = parse(line)
            if connection.replica is None:
                connection.replica = hello_event(message)
                event: Event | None = connection.replica
            else:
                event = event_of(message, connection.replica)
        except MessageError:
            return
        if event is not None:
            self._events.put(event)
            self._wake()

    def _update_watches(self) -> None:
        """Read again from connections whose pause is over; watch those for writing that have something to send."""
        now = time.monotonic()
        for connection in list(self._connections.values()):
            if connection.paused and now - connection.second >= 1.0:
                connection.paused = False
                self._read_lines(connection)
            if connection.sock.fileno() < 0:
                continue
            wanted = selectors.EVENT_READ if not connection.paused else 0
            if connection.outgoing:
                wanted |= selectors.EVENT_WRITE
            self._watch(connection, wanted)

    def _watch(self, connection: _Connection, wanted: int) -> None:
        key = self._selector.get_map().get(connection.sock.fileno())
        if key is None:
            if wanted:
                self._selector.register(connection.sock, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.sock)
        elif key.events != wanted:
            self._selector.modify(connection.sock, wanted, connection)

    def _drop(self, connection: _Connection) -> None:
        number = connection.sock.fileno()
        if number < 0:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        with self._lock:
            self._connections.pop(number, None)
        connection.sock.close()
        if connection.replica is not None:
            self._events.put(Disconnected(*connection.replica.sender))
            self._wake()


def _listen(address: str) -> socket.socket:
    try:
        server = _bound(address)
        server.listen(512)
        server.setblocking(False)
    except (OSError, ValueError) as error:
        raise ListenError(f"cannot listen for progress at {address}: {error}") from error
    return server


def _bound(address: str) -> socket.socket:
    if not address.startswith("unix:"):
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        return socket.create_server((host, int(port)))
    path = address.removeprefix("unix:")
    Path(path).unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(path)
    except OSError:
        server.close()
        raise
    return server


def _actual(address: str, server: socket.socket) -> str:
    if address.startswith("unix:"):
        return address
    host, port = server.getsockname()[:2]
    return f"tcp:{host}:{port}"
