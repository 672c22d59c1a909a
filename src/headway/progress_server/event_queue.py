"""Events that wait to be polled. Of several reports of one replica only the newest is kept."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from headway.progress_server.messages import Event, Reported, Sender


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
