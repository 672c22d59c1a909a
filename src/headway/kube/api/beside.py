"""Beside the native scheduler: the manifests of its gate, and how all gates are lifted at once."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.discovery import GROUP, OBEYED_SECONDS, version_served
from headway.kube.api.errors import ApiError, Conflict, KubeError, NotFound
from headway.kube.api.install import manifest_text
from headway.kube.api.objects import Pod
from headway.kube.pods.gate import GATE

NAME = "headway-turn"
POLICIES = ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies", "validatingadmissionpolicybindings",
            "validatingadmissionpolicies")  # fmt: skip
AT_ONCE = 16
TRIES = 5
LOOK_SECONDS = 0.2
_LABEL = re.compile(r"([A-Za-z0-9./_-]+)=([A-Za-z0-9._-]*)")
_pods = msgspec.json.Decoder(Pod)


@dataclass(frozen=True, slots=True)
class Gated:
    """Whose new pods get the gate, by labels: `team=ml,tier=train`."""

    namespaces: str = "headway.dev/beside=true"
    pods: str = ""
    """Of these namespaces; empty: all."""

    def manifests(self, system: str, version: str) -> str:
        """Raises KubeError for labels that are none, and where the API server has no such policies."""
        if not version:
            raise KubeError(
                "--beside: this cluster has no MutatingAdmissionPolicy, which Kubernetes 1.36 and newer have; there, "
                f"name the gate {GATE} in your pod templates yourself"
            )
        text = manifest_text("beside.yaml").replace("SYSTEM", system)
        text = text.replace("NAMESPACES", json.dumps(_labels("--gate-namespaces", self.namespaces)))
        text = text.replace("{matchLabels: PODS}", json.dumps({"matchLabels": _labels("--gate-pods", self.pods)}))
        mutating, dash, rest = text.partition("---\n# Nobody takes")
        return mutating.replace(f"{GROUP}/v1\n", f"{GROUP}/{version}\n") + dash + rest

    async def obeyed(self, access: Access) -> str:
        """Waits until new pods get the gate, which takes the API server some seconds. Returns where, in a sentence."""
        selector = quote(self.namespaces, safe="")
        async with Client(access) as client:
            found = json.loads(await client.get(f"/api/v1/namespaces?labelSelector={selector}"))["items"]
            names = [one["metadata"]["name"] for one in found]
            for _ in range(int(2 * OBEYED_SECONDS / LOOK_SECONDS) if names else 0):
                if await self._is_gated(client, names[0]):
                    break
                await asyncio.sleep(LOOK_SECONDS)
        if not names:
            return f"no namespace has the label {self.namespaces} yet: kubectl label namespace NAME {self.namespaces}"
        return f"new pods of {', '.join(names[:5])}{' and others' * (len(names) > 5)} wait for their turn"

    async def _is_gated(self, client: Client, namespace: str) -> bool:
        meta = {"generateName": "check-", "labels": _labels("--gate-pods", self.pods)}
        pod = {"metadata": meta, "spec": {"containers": [{"name": "check", "image": "check"}]}}
        try:
            answer = _pods.decode(await client.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod))
        except ApiError:  # a rule of the namespace refuses such a pod: nobody knows
            return True
        return any(gate.name == GATE for gate in answer.spec.schedulingGates)


def _labels(option: str, text: str) -> Mapping[str, str]:
    found = {}
    for word in text.split(",") if text else ():
        match = _LABEL.fullmatch(word.strip())
        if match is None:
            raise KubeError(f"{option} {text}: write labels as name=value, several with commas between them")
        found[match[1]] = match[2]
    if option == "--gate-namespaces" and not found:
        raise KubeError(f"{option}: name a label of the namespaces whose pods wait for their turn")
    return found


async def release(access: Access) -> list[str]:
    """Takes the policies away and lifts the gate of every pod: the native scheduler goes on as without Headway.

    A server obeys the removal after some seconds, in which new pods get the gate still: their gates are lifted, too.
    """
    async with Client(access) as client:
        removed = [plural for plural in POLICIES if await _removed(client, plural)]
        until, lifted, tries = time.monotonic() + OBEYED_SECONDS * bool(removed), 0, 0
        while True:
            waiting, late = await _gated(client), time.monotonic() >= until
            slots = asyncio.Semaphore(AT_ONCE)
            lifted += sum(await asyncio.gather(*(_lift(client, pod, slots) for pod in waiting)))
            tries += late
            if late and (not waiting or tries > TRIES):
                break
            await asyncio.sleep(LOOK_SECONDS)
        left = len(await _gated(client))
    gone = f"removed the policies {NAME}: new pods get no gate" if removed else f"there are no policies {NAME}"
    said = [gone, f"lifted the gate of {lifted} pods"]
    return [*said, *([f"{left} pods still have it: run the command again"] if left else [])]


async def _removed(client: Client, plural: str) -> bool:
    """In the version in which the server has such objects. Whether it was there."""
    version = await version_served(client, plural)
    if not version:
        return False
    try:
        await client.delete(f"/apis/{GROUP}/{version}/{plural}/{NAME}")
    except NotFound:
        return False
    return True


async def _gated(client: Client) -> list[Pod]:
    found = []
    async for page in client.list_pages("/api/v1/pods", "&fieldSelector=spec.nodeName="):
        for raw in page.items or []:
            with suppress(msgspec.DecodeError):
                pod = _pods.decode(raw)
                found += [pod] if any(gate.name == GATE for gate in pod.spec.schedulingGates) else []
    return found


async def _lift(client: Client, pod: Pod, slots: asyncio.Semaphore) -> int:
    others = [{"name": gate.name} for gate in pod.spec.schedulingGates if gate.name != GATE]
    body = {"metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resourceVersion},
            "spec": {"schedulingGates": others}}  # fmt: skip
    async with slots:
        try:
            await client.patch(f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}", body)
        except (Conflict, NotFound):
            return 0
        except ApiError as error:
            raise KubeError(f"pod {pod.metadata.namespace}/{pod.metadata.name}: {error}") from error
    return 1
