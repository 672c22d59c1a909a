"""A queue with many writers in other threads, and one reader."""

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
            self._held.append(self._queue.get(timeout=max(0.0, seconds)))
        except queue.Empty:
            return False
        return True
