"""Turns at the API server: so many requests at once, and namespaces take turns.

Example: a tenant has submitted ten thousand jobs that are refused. Each gets a status and an event. Another tenant's
only job waits for one request of the first tenant, not for twenty thousand.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Use in one event loop. The first of a namespace is the first to go."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By namespace. The namespace whose turn is next comes first."""

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Waits for a turn of this namespace, and keeps it for as long as the context is open."""
        await self._enter(namespace)
        try:
            yield
        finally:
            self._leave()

    def waiting(self, namespace: str) -> int:
        """How many of this namespace wait."""
        return len(self._waiting.get(namespace, ()))

    async def _enter(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given a turn in the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            namespace = next(iter(self._waiting))
            queue = self._waiting.pop(namespace)
            turn = queue.popleft()
            if queue:
                self._waiting[namespace] = queue  # now the last
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
