"""A small server in a thread of its own: one line of JSON per message, both ways.

Bounded on every side. A line longer than 64 KiB ends the connection. A replica that floods is read at most 100
messages a second and feels back-pressure in its own socket; nobody else is slowed. Of several reports that wait to be
polled only the newest of each replica is kept.
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
from headway.progress_server.events import Connected, Disconnected, Event, Reported
from headway.progress_server.words import Nonsense, greeting, parse, speaker_of, understand

LONGEST_LINE = 64 * 1024
MESSAGES_PER_SECOND = 100
MOST_CONNECTIONS = 10_000


class ListenError(UserError):
    """The address cannot be listened on."""


@dataclass(slots=True, eq=False)
class _Caller:
    link: socket.socket
    who: Connected | None = None
    heard: bytes = b""
    to_say: bytes = b""
    second: float = 0.0
    messages: int = 0
    nonsense: int = 0
    paused: bool = False


@dataclass(slots=True)
class _Inbox:
    """What waits to be polled."""

    events: list[Event] = field(default_factory=list)
    reports: dict[tuple[object, ...], Reported] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, event: Event) -> None:
        with self.lock:
            if isinstance(event, Reported):
                self.reports[speaker_of(event)] = event
            else:
                waiting = self.reports.pop(speaker_of(event), None)
                self.events.extend([event] if waiting is None else [waiting, event])

    def drain(self) -> list[Event]:
        with self.lock:
            events = [*self.events, *self.reports.values()]
            self.events, self.reports = [], {}
            return events


class ProgressServer:
    """`address` is `unix:/path` or `tcp:host:port`; port 0 takes any. `wake` is called from the server's thread."""

    def __init__(self, address: str, wake: Callable[[], None] = lambda: None) -> None:
        self._server = _listen(address)
        self.address = _actual(address, self._server)
        self._wake = wake
        self._inbox = _Inbox()
        self._callers: dict[int, _Caller] = {}
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ, "server")
        self._selector.register(self._bell, selectors.EVENT_READ, "bell")
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="headway-listen", daemon=True)
        self._thread.start()

    def poll(self) -> list[Event]:
        """Everything heard since the last poll; of each replica's reports the newest."""
        return self._inbox.drain()

    def connected(self, job: JobId) -> list[Connected]:
        with self._lock:
            return [c.who for c in self._callers.values() if c.who is not None and c.who.job == job]

    def save(self, job: JobId, request: int) -> int:
        """Asks every connected replica of the job that can save; returns how many were asked."""
        return self._tell(job, {"save": request}, lambda who: who.can_save)

    def resize(self, job: JobId, replicas: Mapping[str, int], cpu: Mapping[str, float]) -> None:
        """Tells every connected replica of the job its size; cpu in cores by role."""
        for role in {who.role for who in self.connected(job)}:
            size = {"resize": {"replicas": dict(replicas), "cpu": cpu.get(role)}}
            self._tell(job, size, lambda who, role=role: who.role == role)  # type: ignore[misc]

    def close(self) -> None:
        self._closing = True
        self._ring()
        self._thread.join(timeout=5)
        if self.address.startswith("unix:"):
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)

    # ── speaking ────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, job: JobId, message: dict[str, Any], wanted: Callable[[Connected], bool]) -> int:
        line = json.dumps(message).encode() + b"\n"
        told = 0
        with self._lock:
            for caller in self._callers.values():
                if caller.who is not None and caller.who.job == job and wanted(caller.who):
                    caller.to_say += line
                    told += 1
        self._ring()
        return told

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._rope.send(b"!")

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while not self._closing:
            for key, events in self._selector.select(timeout=0.5):
                if key.data == "server":
                    self._accept()
                elif key.data == "bell":
                    with contextlib.suppress(OSError):
                        self._bell.recv(4096)
                else:
                    self._attend(key.data, events)
            self._regulate()
        for caller in list(self._callers.values()):
            self._drop(caller)
        for end in (self._server, self._bell, self._rope):
            end.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            link, _ = self._server.accept()
        except OSError:
            return
        if len(self._callers) >= MOST_CONNECTIONS:
            link.close()
            return
        link.setblocking(False)
        caller = _Caller(link)
        with self._lock:
            self._callers[link.fileno()] = caller
        self._selector.register(link, selectors.EVENT_READ, caller)

    def _attend(self, caller: _Caller, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE and caller.to_say:
                with self._lock:
                    sent = caller.link.send(caller.to_say)
                    caller.to_say = caller.to_say[sent:]
            if events & selectors.EVENT_READ:
                data = caller.link.recv(LONGEST_LINE)
                if not data:
                    self._drop(caller)
                    return
                caller.heard += data
                self._hear(caller)
        except BlockingIOError:
            return
        except OSError:
            self._drop(caller)

    def _hear(self, caller: _Caller) -> None:
        now = time.monotonic()
        if now - caller.second >= 1.0:
            caller.second, caller.messages = now, 0
        while b"\n" in caller.heard and caller.messages < MESSAGES_PER_SECOND:
            line, caller.heard = caller.heard.split(b"\n", 1)
            caller.messages += 1
            self._line(caller, line)
        if b"\n" not in caller.heard and len(caller.heard) > LONGEST_LINE:
            self._drop(caller)
        caller.paused = caller.messages >= MESSAGES_PER_SECOND

    def _line(self, caller: _Caller, line: bytes) -> None:
        try:
            message = parse(line)
            if caller.who is None:
                caller.who = greeting(message)
                event: Event | None = caller.who
            else:
                event = understand(message, caller.who)
        except Nonsense:
            caller.nonsense += 1
            return
        if event is not None:
            self._inbox.put(event)
            self._wake()

    def _regulate(self) -> None:
        """Listens to whom there is time for, speaks to whom there is something to say."""
        now = time.monotonic()
        for caller in list(self._callers.values()):
            if caller.paused and now - caller.second >= 1.0:
                caller.paused = False
                self._hear(caller)
            if caller.link.fileno() < 0:
                continue
            wanted = selectors.EVENT_READ if not caller.paused else 0
            if caller.to_say:
                wanted |= selectors.EVENT_WRITE
            self._watch(caller, wanted)

    def _watch(self, caller: _Caller, wanted: int) -> None:
        key = self._selector.get_map().get(caller.link.fileno())
        if key is None:
            if wanted:
                self._selector.register(caller.link, wanted, caller)
        elif not wanted:
            self._selector.unregister(caller.link)
        elif key.events != wanted:
            self._selector.modify(caller.link, wanted, caller)

    def _drop(self, caller: _Caller) -> None:
        number = caller.link.fileno()
        if number < 0:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(caller.link)
        with self._lock:
            self._callers.pop(number, None)
        caller.link.close()
        if caller.who is not None:
            self._inbox.put(Disconnected(*speaker_of(caller.who)))
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
