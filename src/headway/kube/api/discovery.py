"""What the API server serves and allows: whether TrainingJobs are known, our rights, and who records users."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Forbidden, KubeError, NotFound, Unreachable
from headway.kube.api.objects import Meta, unix

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


log = logging.getLogger("headway.kube")
NAME = "headway-user"
GROUP = "admissionregistration.k8s.io"
CHECKED = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
RECORDED = "mutatingadmissionpolicies"
OBEYED_SECONDS = 5.0
"""An API server obeys a new policy after a second or two."""
LOOK_AGAIN_SECONDS = 60.0


class _BindingSpec(msgspec.Struct, frozen=True):
    policyName: str = NAME  # noqa: N815  Kubernetes' spelling, here and below
    matchResources: dict[str, object] | None = None  # noqa: N815


class _Found(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: _BindingSpec = _BindingSpec()


class _Resource(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource] = []


async def version_served(client: Client, plural: str) -> str:
    """The version in which this API server has such policies; empty if it has none."""
    for version in ("v1", "v1beta1"):
        try:
            listed = await client.get(f"/apis/{GROUP}/{version}")
        except NotFound:
            continue
        if plural in {found.name for found in msgspec.json.decode(listed, type=_Resources).resources}:
            return version
    return ""


async def follow_users(
    client: Client, tell: Callable[[float | None], None], seconds: float = LOOK_AGAIN_SECONDS
) -> None:
    """Looks again and again, and tells what is new; the first time in any case."""
    told: object = None
    while True:
        await asyncio.sleep(seconds)
        try:
            since = await users_since(client, quiet=True)
        except ApiError:  # it is asked again
            continue
        if told != (since,):
            told = (since,)
            tell(since)


async def users_since(client: Client, *, quiet: bool = False) -> float | None:
    """The Unix time since when users are right in all namespaces; None if nobody makes sure of it."""
    try:
        policy, binding = [await _get(client, f"/apis/{GROUP}/v1/{plural}/{NAME}") for plural in CHECKED]
    except NotFound:
        return None
    except Forbidden as error:
        if not quiet:
            log.warning("whether the cluster records users cannot be read: %s", error)
        return None
    if binding.spec.policyName != NAME or (binding.spec.matchResources or {}).get("namespaceSelector"):
        return None
    return max(unix(one.metadata.creationTimestamp) for one in (policy, binding)) + OBEYED_SECONDS


async def _get(client: Client, path: str) -> _Found:
    return msgspec.json.decode(await client.get(path), type=_Found)
