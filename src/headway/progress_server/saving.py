"""Who of a replica's trackers is asked to save, and when the replica has answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headway.progress_server.connection import Connection
from headway.progress_server.messages import Saved, SaveFailed, Sender


@dataclass(slots=True)
class SaveAnswers:
    """A replica has saved when all its trackers that were asked have answered. Until then its answer is held."""

    held: dict[Sender, Saved] = field(default_factory=dict)

    def take(
        self, connection: Connection, event: Saved | SaveFailed, of_job: Iterable[Connection]
    ) -> Saved | SaveFailed | None:
        """The answer, if it is to be handed on now. `of_job`: all connections of the job."""
        if event.request is None:  # a checkpoint that the script made by itself
            return event
        if connection.asked == event.request:
            connection.asked = None
        if isinstance(event, Saved) and _is_asked(event, of_job):
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


def savers(connections: Iterable[Connection]) -> list[Connection]:
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
    return [connection for others in found.values() for connection in others]
