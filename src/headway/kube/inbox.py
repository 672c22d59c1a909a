"""What other threads tell the one that decides: a queue with many writers and one reader."""

from __future__ import annotations

import math
import queue
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headway.kube.api.usage import Measured
from headway.kube.api.watch import News
from headway.kube.intake.dry_runs import DryRunDone
from headway.kube.intake.groups import GroupRead
from headway.kube.pods.constraints import BoundClaim
from headway.kube.writes.write import WriteDone

T = TypeVar("T")


class Inbox(Generic[T]):
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._held: deque[T] = deque()

    def put(self, message: T) -> None:
        """Adds a message; may be called from any thread."""
        self._queue.put(message)

    def put_back(self, messages: Iterable[T]) -> None:
        """Returns messages to the front of the queue. Only the reader may call this and the methods below."""
        self._held.extendleft(reversed(list(messages)))

    def next(self) -> T | None:
        """The next message; None if there is none."""
        if self._held:
            return self._held.popleft()
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def wait(self, seconds: float) -> bool:
        """Waits until there is a message, at most `seconds`. Returns whether there is one."""
        if self._held:
            return True
        try:
            self._held.append(self._queue.get(timeout=max(0.0, seconds) if math.isfinite(seconds) else None))
        except queue.Empty:
            return False
        return True


@dataclass(frozen=True, slots=True)
class ClaimsRead:
    """The claims for volumes of a pod that somebody else made."""

    uid: str
    claims: Mapping[str, BoundClaim]


@dataclass(frozen=True, slots=True)
class LeaseRead:
    """When a node last renewed its Lease, as it is written there; empty if that cannot be read."""

    node: str
    renewed: str
    asked: float
    """When it was asked for, on the cluster's clock."""


@dataclass(frozen=True, slots=True)
class Wake:
    """The reader is to wake up: the progress server has messages, or the program ends."""


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The thread has ended, although nobody closed it: no change will be heard of any more."""

    why: str


@dataclass(frozen=True, slots=True)
class UsersRecorded:
    """Since when the cluster makes sure who submits: a Unix time; None if it does not."""

    since: float | None


Message = (
    News[Any]
    | WriteDone
    | DryRunDone
    | ClaimsRead
    | GroupRead
    | LeaseRead
    | Measured
    | UsersRecorded
    | Wake
    | WorkerEnded
)  # fmt: skip
