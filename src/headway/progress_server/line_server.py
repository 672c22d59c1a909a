"""Lines over many connections, in a thread of its own. What a line means is its owner's business.

Every side is bounded (`ServerLimits`). A line longer than 64 KiB ends the connection. Of a replica that sends too many
lines a second the rest waits in its own socket, and the others are not slowed. A connection that is not known in time
is ended. An error in one connection ends that connection only. The work of a turn depends on what happened, not on how
many connections are open.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from headway.progress_server.connection import Connection
from headway.progress_server.connections import Connections, ServerLimits
from headway.progress_server.door import Door

MOST_RESTARTS = 10
"""Of the thread: it ends by a fault of ours only, and one that comes each time is not waited out."""
log = logging.getLogger("headway.progress_server")
LONGEST_LINE = 64 * 1024
LONGEST_OUTGOING = 1024 * 1024
READS_PER_TURN = 4
KNOWN_PER_TURN = 64
STRANGERS_PER_TURN = 16
LONGEST_PAUSE_SECONDS = 5.0
Ready = list[tuple[Connection, int]]
"""Connections, and for which events they are ready."""


class LineServer:
    """`take` gets each line, `ended` each connection that was known and has ended; both are called in the thread."""

    def __init__(
        self,
        address: str,
        tls: ssl.SSLContext | None,
        limits: ServerLimits,
        take: Callable[[Connection, bytes], None],
        ended: Callable[[Connection], None],
    ) -> None:
        self._limits, self._take, self._ended = limits, take, ended
        self.lock = threading.Lock()
        """Held while connections are added or removed, and while something is to be sent."""
        self.connections = Connections(limits)
        self._selector = selectors.DefaultSelector()
        self._door = Door(address, self.connections, self._selector, tls)
        self.address = self._door.address
        self._paused: set[Connection] = set()
        self._unread: set[Connection] = set()
        """Connections whose bytes are here, but were left for the next turn."""
        self._to_send: set[Connection] = set()
        self._work: deque[tuple[Connection, Callable[[Connection], None]]] = deque()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, "wake")
        self._closing = False
        self._starts = 0
        self.turned_at = time.monotonic()
        """When its thread last went on, by the monotonic clock."""

    def start(self) -> None:
        self._starts += 1
        self._thread = threading.Thread(target=self._serve, name="headway-listen", daemon=True)
        self._thread.start()

    def is_served(self) -> bool:
        """False if its thread has ended. One that ended is started again first, unless that happens again and again."""
        if self._closing or self._thread.is_alive():
            return True
        if self._starts > MOST_RESTARTS:
            return False
        log.error("the thread that receives progress has ended; another takes over")
        self.start()
        return True

    def close(self) -> None:
        self._closing = True
        self._wake()
        self._thread.join(timeout=5)
        for connection in self.connections.all():
            self.drop(connection)
        self._door.close()
        for end in (self._wake_reader, self._wake_writer):
            end.close()
        self._selector.close()
        if self.address.startswith("unix:"):
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)

    # ── from any thread ─────────────────────────────────────────────────────────────────────────────────

    def send(self, lines: Iterable[tuple[Connection, bytes]]) -> None:
        """Under the lock."""
        for connection, line in lines:
            connection.outgoing += line
            self._to_send.add(connection)
        self._wake()

    def soon(self, connection: Connection, work: Callable[[Connection], None]) -> None:
        """Does something with a connection in the server's thread, unless it has ended."""
        self._work.append((connection, work))
        self._wake()

    def _wake(self) -> None:
        if threading.current_thread() is not self._thread:
            with contextlib.suppress(OSError):
                self._wake_writer.send(b"!")

    # ── in the thread ───────────────────────────────────────────────────────────────────────────────────

    def go_on(self, connection: Connection) -> None:
        """It was paused, or was not known: what has come meanwhile is read."""
        connection.paused = False
        self._paused.discard(connection)
        self._read_lines(connection)
        if connection.is_open and connection.reads:
            self._receive(connection)

    def drop(self, connection: Connection) -> None:
        if not connection.is_open:
            return
        if connection.watched:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(connection.sock)
        for group in (self._paused, self._unread):
            group.discard(connection)
        with self.lock:
            self.connections.remove(connection)
            self._to_send.discard(connection)
        connection.sock.close()
        if connection.replica is not None:
            self._ended(connection)

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
        """Known replicas come first. Of the others only a few have their turn: to begin TLS takes a millisecond."""
        known: Ready = []
        strangers: Ready = []
        at_door = False
        for key, events in self._selector.select(timeout=0 if self._unread else 0.1 if self._paused else 0.5):
            if key.data == "door":
                at_door = True
            elif key.data == "wake":
                with contextlib.suppress(OSError):
                    self._wake_reader.recv(4096)
            else:
                (strangers if key.data.replica is None else known).append((key.data, events))
        self._serve_some(known, KNOWN_PER_TURN)
        unread, self._unread = self._unread, set()
        for connection in unread:
            self._guarded(connection, self._receive)
        self.turned_at = now = time.monotonic()
        for connection in [one for one in self._paused if not one.budget.is_spent(now)]:
            self._guarded(connection, self.go_on)
        self._serve_some(strangers, STRANGERS_PER_TURN)
        if at_door:
            self._accept(now)
        while self._work:
            self._guarded(*self._work.popleft())
        self._look_at_clock(now)
        self._flush()

    def _serve_some(self, ready: Ready, most: int) -> None:
        """Those that have waited longest; the selector shows the others again in the next turn."""
        now = time.monotonic()
        for connection, events in heapq.nsmallest(most, ready, key=lambda one: one[0].served):
            connection.served = now
            self._guarded(connection, partial(self._transfer, events))

    def _accept(self, now: float) -> None:
        with self.lock:
            leaving = self._door.accept(now)
        for silent in leaving:
            self.drop(silent)

    def _flush(self) -> None:
        with self.lock:
            to_send, self._to_send = self._to_send, set()
        for connection in to_send:
            self._guarded(connection, self._write)

    def _guarded(self, connection: Connection, work: Callable[[Connection], None]) -> None:
        """An error in one connection's handling ends that connection only."""
        if not connection.is_open:  # it was dropped in this turn
            return
        try:
            work(connection)
            self._watch(connection)
        except OSError:
            self.drop(connection)
        except Exception:
            log.exception("an error in a connection; it is ended")
            self.drop(connection)

    def _watch(self, connection: Connection) -> None:
        """Watches it for what it waits for: to read unless it is paused, to write while it has something to send."""
        wanted = selectors.EVENT_READ * connection.reads | selectors.EVENT_WRITE * connection.writes
        if not connection.is_open or wanted == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.sock, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, wanted, connection)
        connection.watched = wanted

    # ── the clock ───────────────────────────────────────────────────────────────────────────────────────

    def _look_at_clock(self, now: float) -> None:
        self._door.reopen(now)
        while self.connections.waiting:
            oldest = next(iter(self.connections.waiting))
            if now - oldest.accepted < self._limits.greeting_seconds:
                break
            self.drop(oldest)
        while self.connections.known:
            connection = next(iter(self.connections.known))
            if now - connection.beaten < self._limits.beat_seconds:
                return
            connection.beaten = now
            with self.lock:
                self.connections.beaten(connection)
            self._guarded(connection, partial(self._beat, now))

    def _beat(self, now: float, connection: Connection) -> None:
        """A heartbeat, so that both ends notice when the other is gone."""
        silent = connection.beats and not connection.paused and now - connection.heard > self._limits.silent_seconds
        if silent or not connection.holds:
            self.drop(connection)
            return
        self.beat(connection)

    def beat(self, connection: Connection) -> None:
        """A heartbeat says how often it comes: whoever misses some connects anew."""
        with self.lock:
            self.send([(connection, b'{"beat":1,"every":%g}\n' % self._limits.beat_seconds)])

    # ── bytes ───────────────────────────────────────────────────────────────────────────────────────────

    def _transfer(self, events: int, connection: Connection) -> None:
        if events & selectors.EVENT_WRITE and connection.outgoing:
            self._write(connection)
        if connection.is_open and connection.reads:
            self._receive(connection)

    def _write(self, connection: Connection) -> None:
        with self.lock:
            connection.write()
            too_much = len(connection.outgoing) > LONGEST_OUTGOING
        if too_much:
            self.drop(connection)

    def _receive(self, connection: Connection) -> None:
        for _ in range(READS_PER_TURN):
            try:
                data = connection.read(LONGEST_LINE)
            except BlockingIOError:
                return
            if not data:
                self.drop(connection)
                return
            connection.heard = time.monotonic()
            connection.received += data
            self._read_lines(connection)
            if not connection.is_open or not connection.reads:
                return
        self._unread.add(connection)

    def _read_lines(self, connection: Connection) -> None:
        now = time.monotonic()
        while b"\n" in connection.received and connection.reads:
            if connection.budget.is_spent(now):
                connection.paused = True
                self._paused.add(connection)
                return
            line, connection.received = connection.received.split(b"\n", 1)
            connection.budget.used += 1
            self._take(connection, line)
            if not connection.is_open:
                return
        if b"\n" not in connection.received and len(connection.received) > LONGEST_LINE:
            self.drop(connection)
