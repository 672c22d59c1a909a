"""Whether the cluster makes sure that `spec.user` of a TrainingJob is who submitted it, and since when.

`headway schedule --install` applies two policies of the API server. A mutating one writes the user. A validating one
demands that it is right: it holds on clusters that do not have the first kind, or serve it without obeying it. Without
the validating one, `spec.user` is only what somebody typed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from headway.kube.api.client import Client
from headway.kube.api.errors import ApiError, Forbidden, NotFound
from headway.kube.api.objects import Meta, unix

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
