"""The progress server: what training scripts send becomes events, and Headway's requests go to the right replicas.

Lines come from `LineServer`, in its thread. The first line of a connection is a greeting; `identify` says which replica
it is of. Only then is anything else read. So nobody can speak for another replica.
"""

from __future__ import annotations

import json
import logging
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from headway.core.job import JobId
from headway.progress_server.address import ListenError, most_connections
from headway.progress_server.connection import Connection
from headway.progress_server.connections import ServerLimits
from headway.progress_server.identity import Identify, KnownReplica, as_claimed
from headway.progress_server.line_server import LineServer
from headway.progress_server.messages import (
    Connected,
    Disconnected,
    Event,
    MessageError,
    Reported,
    Saved,
    SaveFailed,
    Sender,
    event_of,
    greeting_of,
    parse,
)
from headway.progress_server.rates import RateLimit
from headway.progress_server.saving import SaveAnswers, savers

log = logging.getLogger("headway.progress_server")
EVERY_SECONDS = 60.0


@dataclass(slots=True)
class RefusalNotes:
    count: int = 0
    """Since the last line."""
    told: float = -math.inf

    def note(self, why: str, peer: str, now: float) -> None:
        self.count += 1
        if now - self.told >= EVERY_SECONDS:
            log.warning("refused %d greetings of replicas; the last, from %s: %s", self.count, peer or "here", why)
            self.told, self.count = now, 0


@dataclass(slots=True)
class EventQueue:
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


log = logging.getLogger("headway.progress_server")
USUAL_LIMITS = ServerLimits()


class ProgressServer:
    """Listens at `unix:/path` or `tcp:host:port`; port 0 takes any free one. With `tls` its address is `tls:host:port`.

    `wake` is called from the server's thread after each event. `identify` says which replica a greeting is of.
    """

    def __init__(
        self,
        address: str,
        wake: Callable[[], None] = lambda: None,
        identify: Identify = as_claimed,
        tls: ssl.SSLContext | None = None,
        limits: ServerLimits = USUAL_LIMITS,
    ) -> None:
        self._wake, self._identify = wake, identify
        self._greetings = RateLimit(limits.replica_burst, limits.replica_per_second)
        self._events, self._answers, self._refusals = EventQueue(), SaveAnswers(), RefusalNotes()
        bounded = replace(limits, in_all=most_connections(limits.in_all))
        self._lines = LineServer(address, tls, bounded, self._take, self._ended)
        self._connections, self._lock = self._lines.connections, self._lines.lock
        self.address = self._lines.address
        self._lines.start()

    def poll(self) -> list[Event]:
        """The events since the last poll; of each replica's reports only the newest."""
        if not self._lines.is_served():
            raise ListenError(f"headway no longer receives progress at {self.address}: its listener has ended")
        return self._events.drain()

    @property
    def turned_at(self) -> float:
        """When its thread last went on, by the monotonic clock."""
        return self._lines.turned_at

    def connected(self, job: JobId) -> list[Connected]:
        """The replicas of the job that are connected now."""
        with self._lock:
            return [one.replica for one in self._connections.of_job(job) if one.replica is not None]

    def save(self, job: JobId, request: int) -> None:
        """Ask every connected replica of the job that can save to do so: its trackers of the lowest rank."""
        with self._lock:
            asked = savers(self._connections.of_job(job))
            for connection in asked:
                connection.asked = request
            self._send(asked, {"save": request})

    def resize(self, job: JobId, replicas: Mapping[str, int], cpu: Mapping[str, float]) -> None:
        """Tell every connected replica of the job its new size; `cpu` is in cores by role."""
        with self._lock:
            by_role: dict[str, list[Connection]] = {}
            for connection in self._connections.of_job(job):
                if connection.replica is not None:
                    by_role.setdefault(connection.replica.role, []).append(connection)
            for role, told in by_role.items():
                self._send(told, {"resize": {"replicas": dict(replicas), "cpu": cpu.get(role)}})

    def close(self) -> None:
        self._lines.close()

    def _send(self, connections: Iterable[Connection], message: dict[str, Any]) -> None:
        """Under the lock."""
        line = json.dumps(message).encode() + b"\n"
        self._lines.send((connection, line) for connection in connections)

    # ── in the thread of the lines ──────────────────────────────────────────────────────────────────────

    def _take(self, connection: Connection, line: bytes) -> None:
        try:
            message = parse(line)
            if connection.replica is None:
                connection.greeting = greeting_of(message, connection.peer)
                self._identify(connection.greeting, partial(self._identified, connection))
                return
            event = event_of(message, connection.replica)
        except MessageError:
            return
        if not connection.holds:
            self._lines.drop(connection)
            return
        if isinstance(event, Saved | SaveFailed):
            with self._lock:
                event = self._answers.take(connection, event, self._connections.of_replica(event.sender))
        if event is not None:
            self._put(event)

    def _identified(self, connection: Connection, answer: KnownReplica | str) -> None:
        """From any thread."""
        self._lines.soon(connection, partial(self._greet, answer))

    def _greet(self, answer: KnownReplica | str, connection: Connection) -> None:
        now = time.monotonic()
        if not isinstance(answer, str) and not self._greetings.allows(answer.sender, now):
            answer = "this replica connects too often"
        if isinstance(answer, str):
            self._refuse(connection, answer)
            return
        assert connection.greeting is not None
        hello = connection.greeting.connected(answer.sender)
        same = self._current(hello)
        leaving = self._connections.too_many_known(connection, hello)
        if leaving is connection:
            self._refuse(connection, "there are too many connections of this replica or job")
            return
        if leaving is not None:
            self._lines.drop(leaving)
        connection.known, connection.replica = answer, hello
        connection.beaten = now
        connection.budget = same[0].budget if same else connection.budget
        with self._lock:
            self._connections.knows(connection)
        self._put(hello)
        if connection.beats:
            self._lines.beat(connection)
        self._lines.go_on(connection)

    def _current(self, hello: Connected) -> list[Connection]:
        """The other connections of the replica. Its older ones are ended here.

        A tracker that connects again replaces its old connection, which may be half open. And a connection may be of
        an earlier pod of the same replica.
        """
        with self._lock:
            same = list(self._connections.of_replica(hello.sender))
        for old in same:
            again = hello.tracker and old.replica is not None and old.replica.tracker == hello.tracker
            if again or not old.holds:
                self._lines.drop(old)
        return [one for one in same if one.is_open]

    def _refuse(self, connection: Connection, why: str) -> None:
        self._refusals.note(why, connection.peer, time.monotonic())
        connection.say_last(json.dumps({"refused": why}).encode() + b"\n")
        self._lines.drop(connection)

    def _ended(self, connection: Connection) -> None:
        assert connection.replica is not None
        with self._lock:
            others = self._connections.of_replica(connection.replica.sender)
            held = self._answers.without(connection, others)
        if held is not None:
            self._put(held)
        self._put(Disconnected(*connection.replica.sender))

    def _put(self, event: Event) -> None:
        self._events.put(event)
        try:
            self._wake()
        except Exception:
            log.exception("the cluster could not be woken")
