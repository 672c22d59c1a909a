"""A question that a start cannot go on without, asked until the API server answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import KubeError, Unreachable

T = TypeVar("T")
PATIENCE_SECONDS = 60.0


async def patiently(access: Access, ask: Callable[[Client], Awaitable[T]], seconds: float = PATIENCE_SECONDS) -> T:
    """Waits while the API server is slow or restarts, but not if it refuses. Raises KubeError after so long."""
    give_up = time.monotonic() + seconds
    async with Client(access) as client:
        while True:
            try:
                return await ask(client)
            except Unreachable as error:
                if time.monotonic() >= give_up:
                    raise KubeError(f"the API server cannot be reached within {seconds:g} seconds: {error}") from error
            await asyncio.sleep(min(1.0, max(0.0, give_up - time.monotonic())))
