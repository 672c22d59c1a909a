"""What is asked of the API server once, before the first list: who records users, and which pods may be read."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Forbidden, KubeError, Unreachable
from headway.kube.api.user_policy import users_since

WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    users_since: float | None = None
    """The Unix time since when the cluster records who submits; None if it does not."""
    sees_all_pods: bool = True
    """False where this process may read the pods of its own namespace only."""


async def look_at(access: Access, namespace: str, seconds: float = WAIT_SECONDS) -> ClusterFacts:
    """Waits while the server is slow or restarts. An empty namespace: all."""
    give_up = time.monotonic() + seconds
    async with Client(access) as client:
        while True:
            try:
                return ClusterFacts(await users_since(client), not namespace or await _sees_all_pods(client))
            except Unreachable as error:
                if time.monotonic() > give_up:
                    raise KubeError(f"the API server cannot be reached within {seconds:g} seconds: {error}") from error
            except ApiError as error:
                raise KubeError(
                    f"the API server refuses access: {error}; check the kubeconfig and the roles"
                ) from error
            await asyncio.sleep(0.5)


async def _sees_all_pods(client: Client) -> bool:
    try:
        await client.get("/api/v1/pods?limit=1")
    except Forbidden:
        return False
    return True
