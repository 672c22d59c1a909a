"""Asks the API server how a pod would be if it were made, and where its volumes are. Nothing is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from headway.kube.api.client import Client
from headway.kube.api.discovery import GROUP, OBEYED_SECONDS, version_served
from headway.kube.api.errors import ApiError, NotFound
from headway.kube.api.objects import (
    LimitRange,
    Meta,
    MutatingPolicy,
    NodeTerms,
    Pod,
    PodRule,
    PolicyBinding,
    RuntimeClass,
)
from headway.kube.api.watch import LONGEST_PAUSE_SECONDS, NOT_SHOWN, Follower, News, WatchFailed
from headway.kube.intake.dry_runs import DryRunDone
from headway.kube.pods.constraints import BoundClaim

WEBHOOKS = f"/apis/{GROUP}/v1/mutatingwebhookconfigurations"
LIMIT_RANGES = "/api/v1/{inside}limitranges"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"
ABSENT_SECONDS = 600.0
"""After this the server is asked again for what it does not serve, or does not show us."""

Tell = Callable[[News[Any]], None]


def following_rules(
    client: Client, inside: str, tell: Tell, absent: float = ABSENT_SECONDS, obeyed: float = OBEYED_SECONDS
) -> list[Coroutine[Any, Any, None]]:
    """Watches of what changes pods as they are made; `inside` is the path of one namespace, or empty for all.

    Without the right to see it, pods are not asked for again. A server obeys a policy some seconds after it shows it:
    news of policies are told when they are obeyed, for a dry run before that would be made under the old ones.
    """

    def told(news: News[Any]) -> None:
        if not isinstance(news, WatchFailed):
            tell(news)

    def told_late(news: News[Any]) -> None:
        asyncio.get_running_loop().call_later(obeyed, told, news)

    ranges = LIMIT_RANGES.format(inside=inside)
    return [
        Follower(client, WEBHOOKS, PodRule, told).follow(),
        Follower(client, ranges, LimitRange, told).follow(),
        _follow_served(client, POLICIES, MutatingPolicy, told_late, absent),
        _follow_served(client, BINDINGS, PolicyBinding, told_late, absent),
        _follow_served(client, RUNTIME_CLASSES, RuntimeClass, told, absent),
    ]


async def _follow_served(client: Client, what: str, kind: type[Any], tell: Tell, absent_seconds: float) -> None:
    """Follows objects that not every server has, or shows us: by their path, or by their name in any served version."""
    while True:
        pause = absent_seconds
        try:
            version = "" if what.startswith("/") else await version_served(client, what)
            path = f"/apis/{GROUP}/{version}/{what}" if version else what
            if path.startswith("/"):
                await Follower(client, path, kind, tell, optional=True).follow()
        except Exception as error:  # noqa: BLE001  nobody else would notice that the watch ended
            hidden = isinstance(error, ApiError) and error.status in NOT_SHOWN
            pause = absent_seconds if hidden else min(absent_seconds, LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(pause)


class _ClaimSpec(msgspec.Struct):
    volumeName: str = ""  # noqa: N815  Kubernetes' spelling, here and below
    storageClassName: str = ""  # noqa: N815


class _Phase(msgspec.Struct):
    phase: str = ""


class _Claim(msgspec.Struct):
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _Phase = msgspec.field(default_factory=_Phase)


class _VolumeAffinity(msgspec.Struct):
    required: NodeTerms | None = None


class _VolumeSpec(msgspec.Struct):
    nodeAffinity: _VolumeAffinity | None = None  # noqa: N815


class _PersistentVolume(msgspec.Struct):
    metadata: Meta
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)


class _StorageClass(msgspec.Struct):
    volumeBindingMode: str = ""  # noqa: N815


async def tried(client: Client, key: str, namespace: str, body: Mapping[str, Any]) -> DryRunDone:
    """The pod after defaults, webhooks and limits, and its claims; or why there is no answer."""
    try:
        raw = await client.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
        pod = msgspec.json.decode(raw, type=Pod)
        return DryRunDone(key, pod, await claims_of(client, namespace, pod))
    except Exception as error:  # noqa: BLE001  the job waits for an answer, whatever it is
        return DryRunDone(key, None, why=str(error)[:300] or type(error).__name__)


async def claims_of(client: Client, namespace: str, pod: Pod) -> dict[str, BoundClaim]:
    """The pod's claims by name, without those that do not exist."""
    found: dict[str, BoundClaim] = {}
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            name = volume.persistentVolumeClaim.claimName
            try:
                found[name] = await _claim(client, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
            except NotFound:
                continue
            except ApiError:  # no right to read it: its pods may be anywhere, as far as we know
                found[name] = BoundClaim()
    return found


async def _claim(client: Client, path: str) -> BoundClaim:
    claim = msgspec.json.decode(await client.get(path), type=_Claim)
    if claim.status.phase == "Bound" and claim.spec.volumeName:
        raw = await client.get(f"/api/v1/persistentvolumes/{claim.spec.volumeName}")
        volume = msgspec.json.decode(raw, type=_PersistentVolume)
        near = volume.spec.nodeAffinity
        labels = tuple(sorted(volume.metadata.labels.items()))
        return BoundClaim(affinity=None if near is None else near.required, labels=labels)
    if not claim.spec.storageClassName:
        return BoundClaim(bound=False)
    raw = await client.get(f"/apis/storage.k8s.io/v1/storageclasses/{claim.spec.storageClassName}")
    mode = msgspec.json.decode(raw, type=_StorageClass).volumeBindingMode
    return BoundClaim(bound=False, waits=mode == "WaitForFirstConsumer")
