"""Where the threads meet: many put messages in, one takes them out, in order."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._held: deque[T] = deque()

    def put(self, message: T) -> None:
        """From any thread."""
        self._queue.put(message)

    def put_back(self, messages: Iterable[T]) -> None:
        """What was taken out and comes before everything that waits. By the reader only, as all below."""
        self._held.extendleft(reversed(list(messages)))

    def next(self) -> T | None:
        """The next message if there is one."""
        if self._held:
            return self._held.popleft()
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def wait(self, seconds: float) -> bool:
        """Until there is a message, or for so long; whether there is one."""
        if self._held:
            return True
        try:
            self._held.append(self._queue.get(timeout=max(0.0, seconds)))
        except queue.Empty:
            return False
        return True
