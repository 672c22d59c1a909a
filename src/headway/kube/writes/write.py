"""One request that changes something in the API server, and what became of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.kube.api.errors import ApiError
from headway.kube.api.objects import Pod
from headway.kube.gangs.model import (
    Bind,
    Create,
    Delete,
    PodAction,
    Publish,
    Release,
    RequestCheckpoint,
    ResizePod,
    Touch,
    Ungate,
)


class Rank(enum.IntEnum):
    """Which request goes first. What is nearly done is finished before something else is begun."""

    BIND = 0
    DELETE = 1
    CREATE = 2
    STATUS = 3
    EVENT = 4


class Stage(enum.Enum):
    NEW = "new"
    QUEUED = "queued"
    SENT = "sent"
    OVER = "over"
    """Answered, or no longer wanted."""


@dataclass(frozen=True, slots=True)
class StatusPatch:
    """The status of a TrainingJob."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An event for users. It is tried once, because nothing depends on it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A TrainingJob that is past its time is deleted, with all that it owns."""


@dataclass(frozen=True, slots=True)
class KeepState:
    """What the next leader goes on with, in a Secret."""


AT_REST = "at rest"
"""The token of a status of a job that is no gang: nobody else writes it again."""
What = PodAction | StatusPatch | Notice | Removal | Touch | KeepState
_RANKS: Mapping[type, Rank] = {
    Bind: Rank.BIND, Ungate: Rank.BIND, ResizePod: Rank.BIND, Release: Rank.BIND, Delete: Rank.DELETE,
    Touch: Rank.BIND, Removal: Rank.STATUS, Create: Rank.CREATE, Publish: Rank.CREATE, StatusPatch: Rank.STATUS,
    Notice: Rank.EVENT,
}  # fmt: skip


def rank_of(what: What) -> Rank:
    assert not isinstance(what, RequestCheckpoint)
    return _RANKS.get(type(what), Rank.STATUS)


@dataclass(slots=True, eq=False)
class Write:
    """Made by the thread that decides; from then on the door alone moves it on."""

    key: str
    """Whose it is: the uid of a gang, or any other name."""
    namespace: str
    name: str
    """Of the object."""
    what: What
    body: dict[str, Any] = field(default_factory=dict)
    uid: str = ""
    """Of the object: no other of the same name is changed."""
    rank: Rank = Rank.STATUS
    token: Any = None
    """Any value; it comes back with the answer."""
    replaces: Write | None = None
    """An older one that need not be sent any more. If it is under way, this one comes after it."""
    then: Write | None = None
    """The one that comes after it."""
    stage: Stage = Stage.NEW
    dropped: bool = False
    """Nobody wants it any more."""
    tries: int = 0


def identity(what: What) -> tuple[object, ...]:
    """Equal for requests of which one gang needs only one at a time."""
    return (type(what), getattr(what, "name", ""), getattr(what, "uid", ""))


@dataclass(frozen=True, slots=True)
class WriteDone:
    write: Write
    pod: Pod | None = None
    """The pod in the API server after it."""
    gone: bool = False
    error: ApiError | None = None
    again: bool = False
    """It was refused, and is sent again later."""
