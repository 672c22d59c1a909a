"""A small server in a thread of its own: one line of JSON per message, both ways.

Every side is bounded. A line longer than 64 KiB ends the connection. At most 100 messages a second are read from a
connection; a replica that sends more fills its own socket, and the others are not slowed. Of several reports that wait
to be polled, only the newest of each replica is kept. A connection that does not say which replica it is within
10 seconds is ended. An error in one connection ends that connection only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from headway.core.job import JobId
from headway.progress_server.address import ListenError, actual, keep_alive, listen, most_connections
from headway.progress_server.connection import Connection, EventQueue, SaveAnswers, savers
from headway.progress_server.messages import (
    Connected,
    Disconnected,
    Event,
    MessageError,
    Saved,
    SaveFailed,
    event_of,
    hello_event,
    parse,
)

log = logging.getLogger("headway.progress_server")
LONGEST_LINE = 64 * 1024
LONGEST_OUTGOING = 1024 * 1024
MESSAGES_PER_SECOND = 100
HELLO_SECONDS = 10.0
CONNECTIONS_PER_REPLICA = 64
ACCEPT_PAUSE_SECONDS = 0.5
ACCEPTS_PER_TURN = 64
LONGEST_PAUSE_SECONDS = 5.0
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ProgressServer:
    """Listens at `unix:/path` or `tcp:host:port`; port 0 takes any free one.

    `wake` is called from the server's thread after each event.
    """

    def __init__(self, address: str, wake: Callable[[], None] = lambda: None) -> None:
        self._server = listen(address)
        self.address = actual(address, self._server)
        self._wake = wake
        self._events = EventQueue()
        self._connections: dict[int, Connection] = {}
        self._most = most_connections()
        self._answers = SaveAnswers()
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ, "server")
        self._selector.register(self._wake_reader, selectors.EVENT_READ, "wake")
        self._accept_at: float | None = None
        """When to accept again, while there are no descriptors left."""
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="headway-listen", daemon=True)
        self._thread.start()

    def poll(self) -> list[Event]:
        """The events since the last poll; of each replica's reports only the newest."""
        if not self._thread.is_alive() and not self._closing:
            raise ListenError(f"headway no longer receives progress at {self.address}: its listener has ended")
        return self._events.drain()

    def connected(self, job: JobId) -> list[Connected]:
        """The replicas of the job that are connected now."""
        with self._lock:
            replicas = [connection.replica for connection in self._connections.values()]
        return [replica for replica in replicas if replica is not None and replica.job == job]

    def save(self, job: JobId, request: int) -> None:
        """Ask every connected replica of the job that can save to do so: its trackers of the lowest rank."""
        with self._lock:
            asked = savers(one for one in self._connections.values() if one.replica and one.replica.job == job)
            for connection in asked:
                connection.asked = request
            self._send(job, {"save": request}, asked.__contains__)
        self._wake_thread()

    def resize(self, job: JobId, replicas: Mapping[str, int], cpu: Mapping[str, float]) -> None:
        """Tell every connected replica of the job its new size; `cpu` is in cores by role."""
        for role in {replica.role for replica in self.connected(job)}:
            size = {"resize": {"replicas": dict(replicas), "cpu": cpu.get(role)}}
            with self._lock:
                self._send(job, size, lambda one, role=role: one.replica.role == role)  # type: ignore[misc]
        self._wake_thread()

    def close(self) -> None:
        self._closing = True
        self._wake_thread()
        self._thread.join(timeout=5)
        for connection in list(self._connections.values()):
            self._drop(connection)
        for end in (self._server, self._wake_reader, self._wake_writer):
            end.close()
        self._selector.close()
        if self.address.startswith("unix:"):
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, job: JobId, message: dict[str, Any], wanted: Callable[[Connection], bool]) -> None:
        line = json.dumps(message).encode() + b"\n"
        for connection in self._connections.values():
            replica = connection.replica
            if replica is not None and replica.job == job and wanted(connection):
                connection.outgoing += line

    def _wake_thread(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"!")

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        pause = 0.05
        while not self._closing:
            try:
                self._turn()
                pause = 0.05
            except Exception:
                log.exception("an error while progress was received; it goes on after %g s", pause)
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _turn(self) -> None:
        for key, events in self._selector.select(timeout=0.5):
            if key.data == "server":
                for _ in range(ACCEPTS_PER_TURN):
                    if not self._accept():
                        break
            elif key.data == "wake":
                with contextlib.suppress(OSError):
                    self._wake_reader.recv(4096)
            elif key.data.sock.fileno() >= 0:  # not dropped in this turn
                self._guarded(key.data, partial(self._transfer, events))
        if self._accept_at is not None and time.monotonic() >= self._accept_at:
            self._accept_at = None
            self._selector.register(self._server, selectors.EVENT_READ, "server")
        for connection in list(self._connections.values()):
            self._guarded(connection, self._update_watch)

    def _guarded(self, connection: Connection, work: Callable[[Connection], None]) -> None:
        """An error in one connection's handling ends that connection only."""
        try:
            work(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
        except Exception:
            log.exception("an error in a connection; it is ended")
            self._drop(connection)

    def _accept(self) -> bool:
        """Takes one connection. False if none waits."""
        try:
            sock, _ = self._server.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:  # the listening socket stays ready: without a pause this would spin
                self._selector.unregister(self._server)
                self._accept_at = time.monotonic() + ACCEPT_PAUSE_SECONDS
            return error.errno in (errno.ECONNABORTED, errno.EINTR)
        if len(self._connections) >= self._most and not self._drop_silent():
            sock.close()
            return True
        sock.setblocking(False)
        keep_alive(sock)
        connection = Connection(sock, time.monotonic())
        with self._lock:
            self._connections[sock.fileno()] = connection
        self._selector.register(sock, selectors.EVENT_READ, connection)
        return True

    def _drop_silent(self) -> bool:
        """Makes room: ends the oldest connection that has not said who it is. False if there is none."""
        silent = next((one for one in self._connections.values() if one.replica is None), None)
        if silent is not None:
            self._drop(silent)
        return silent is not None

    def _transfer(self, events: int, connection: Connection) -> None:
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

    def _read_lines(self, connection: Connection) -> None:
        now = time.monotonic()
        if now - connection.second >= 1.0:
            connection.second, connection.messages = now, 0
        while b"\n" in connection.received and connection.messages < MESSAGES_PER_SECOND:
            line, connection.received = connection.received.split(b"\n", 1)
            connection.messages += 1
            self._handle(connection, line)
            if connection.sock.fileno() < 0:
                return
        if b"\n" not in connection.received and len(connection.received) > LONGEST_LINE:
            self._drop(connection)
        connection.paused = connection.messages >= MESSAGES_PER_SECOND

    def _handle(self, connection: Connection, line: bytes) -> None:
        try:
            message = parse(line)
            if connection.replica is None:
                self._greet(connection, hello_event(message))
                return
            event = event_of(message, connection.replica)
        except MessageError:
            return
        if isinstance(event, Saved | SaveFailed):
            with self._lock:
                event = self._answers.take(connection, event, self._connections.values())
        if event is not None:
            self._put(event)

    def _greet(self, connection: Connection, hello: Connected) -> None:
        """A tracker that connects again replaces its old connection, which may be half open."""
        same = [one for one in self._connections.values() if one.replica and one.replica.sender == hello.sender]
        for old in same if hello.tracker else ():
            if old.replica is not None and old.replica.tracker == hello.tracker:
                self._drop(old)
        if sum(one.sock.fileno() >= 0 for one in same) >= CONNECTIONS_PER_REPLICA:
            self._drop(connection)
            return
        connection.replica = hello
        self._put(hello)

    def _put(self, event: Event) -> None:
        self._events.put(event)
        try:
            self._wake()
        except Exception:
            log.exception("the cluster could not be woken")

    def _update_watch(self, connection: Connection) -> None:
        """Read again when its pause is over; watch it for writing while it has something to send."""
        now = time.monotonic()
        if connection.paused and now - connection.second >= 1.0:
            connection.paused = False
            self._read_lines(connection)
        if connection.sock.fileno() < 0:
            return
        silent = connection.replica is None and now - connection.accepted >= HELLO_SECONDS
        if silent or len(connection.outgoing) > LONGEST_OUTGOING:
            self._drop(connection)
            return
        wanted = (0 if connection.paused else selectors.EVENT_READ) | (
            selectors.EVENT_WRITE * bool(connection.outgoing)
        )
        key = self._selector.get_map().get(connection.sock.fileno())
        if key is None:
            if wanted:
                self._selector.register(connection.sock, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.sock)
        elif key.events != wanted:
            self._selector.modify(connection.sock, wanted, connection)

    def _drop(self, connection: Connection) -> None:
        number = connection.sock.fileno()
        if number < 0:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        with self._lock:
            self._connections.pop(number, None)
            held = self._answers.without(connection, self._connections.values())
        connection.sock.close()
        if held is not None:
            self._put(held)
        if connection.replica is not None:
            self._put(Disconnected(*connection.replica.sender))
