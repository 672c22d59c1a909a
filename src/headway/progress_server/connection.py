"""What the progress server keeps: its connections, and the events that wait to be polled."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from headway.progress_server.messages import Connected, Event, Reported, Saved, SaveFailed, Sender


@dataclass(slots=True, eq=False)
class Connection:
    sock: socket.socket
    accepted: float
    """When it began; on the clock that never goes back."""
    replica: Connected | None = None
    """Its first message; None until that has come."""
    asked: int | None = None
    """The request to save that it has not answered yet."""
    received: bytes = b""
    """What was read and is not yet a whole line, or waits because too many messages came."""
    outgoing: bytes = b""
    second: float = 0.0
    """When the current second began, in which `messages` are counted."""
    messages: int = 0
    paused: bool = False
    """Nothing is read until the current second is over."""


@dataclass(slots=True)
class EventQueue:
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


@dataclass(slots=True)
class SaveAnswers:
    """A replica has saved when all its trackers that were asked have answered. Until then its answer is held."""

    held: dict[Sender, Saved] = field(default_factory=dict)

    def take(
        self, connection: Connection, event: Saved | SaveFailed, all_connections: Iterable[Connection]
    ) -> Saved | SaveFailed | None:
        """The answer, if it is to be handed on now."""
        if event.request is None:  # a checkpoint that the script made by itself
            return event
        if connection.asked == event.request:
            connection.asked = None
        if isinstance(event, Saved) and _is_asked(event, all_connections):
            self.held[event.sender] = event
            return None
        self.held.pop(event.sender, None)
        return event

    def without(self, gone: Connection, others: Iterable[Connection]) -> Saved | None:
        """The held answer of the replica, if it waited only for the connection that is gone."""
        held = None if gone.replica is None else self.held.get(gone.replica.sender)
        if held is None or _is_asked(held, others):
            return None
        return self.held.pop(held.sender)


def _is_asked(answer: Saved, connections: Iterable[Connection]) -> bool:
    """Whether a tracker of the same replica has not answered the same request yet."""
    return any(
        one.replica is not None and one.asked == answer.request and one.replica.sender == answer.sender
        for one in connections
    )


def savers(connections: Iterable[Connection]) -> set[Connection]:
    """Whom to ask: of each replica, the connections of its lowest rank that can save.

    Example: torchrun starts four processes in one replica, and each has a tracker. Only the first is asked.
    """
    found: dict[Sender, list[Connection]] = {}
    for connection in connections:
        replica = connection.replica
        if replica is None or not replica.can_save:
            continue
        others = found.setdefault(replica.sender, [])
        lowest = others[0].replica.rank if others and others[0].replica is not None else replica.rank
        if replica.rank < lowest:
            others.clear()
        if replica.rank <= lowest:
            others.append(connection)
    return {connection for others in found.values() for connection in others}
