"""How each write is sent, and what its answer means."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.kube.api.client import STRATEGIC_PATCH, Client
from headway.kube.api.errors import ApiError, Conflict, Faulty, NotFound, Unreachable
from headway.kube.api.objects import API_VERSION, Bare, Pod
from headway.kube.gangs.model import Bind, Create, Delete, Publish, Release, ResizePod, SetCondition, Touch, Ungate
from headway.kube.pods.marks import same_mark
from headway.kube.pods.replica import MAIN
from headway.kube.writes.write import KeepState, Notice, Removal, StatusPatch, Write, WriteDone

_pods = msgspec.json.Decoder(Pod)
_bare = msgspec.json.Decoder(Bare)


@dataclass(frozen=True, slots=True)
class Requests:
    client: Client

    async def send(self, write: Write) -> WriteDone:
        """What became of it, whatever happens: else its gang would wait for ever."""
        try:
            return await self._sent(write)
        except ApiError as error:
            return WriteDone(write, error=error)
        except msgspec.DecodeError as error:
            return WriteDone(write, error=Unreachable(0, f"the server did not answer with an object: {error}"))
        except Exception as error:  # noqa: BLE001
            return WriteDone(write, error=fault(error))

    async def _sent(self, write: Write) -> WriteDone:  # noqa: C901, PLR0911, PLR0912  one line a request
        inside, what = f"/api/v1/namespaces/{write.namespace}", write.what
        job, pods = f"/apis/{API_VERSION}/namespaces/{write.namespace}/trainingjobs/{write.name}", f"{inside}/pods"
        match what:
            case StatusPatch():
                await self.client.patch(f"{job}/status", {"metadata": {"uid": write.uid}, "status": write.body})
            case Notice():
                await self.client.post(f"{inside}/events", write.body)
            case Removal():
                with contextlib.suppress(NotFound, Conflict):
                    body = {"preconditions": {"uid": write.uid}, "propagationPolicy": "Background"}
                    await self.client.delete(job, body)
            case KeepState():
                await self._keep(f"{inside}/secrets", write)
            case Create():
                return WriteDone(write, await self._create(pods, what, write.body))
            case Publish():
                await self._make(f"{inside}/services", write.body)
            case Release():
                await self._make(f"{inside}/configmaps", write.body)
            case SetCondition():
                await self.client.patch(f"{pods}/{what.name}/status", write.body, STRATEGIC_PATCH)
            case Touch():
                answer = await self.client.patch(f"{pods}/{what.name}/status", write.body, STRATEGIC_PATCH)
                return WriteDone(write, _pods.decode(answer))
            case Bind():
                return WriteDone(write, await self._bind(pods, what))
            case Ungate():
                return await self._ungate(pods, what, write)
            case Delete():
                return await self._delete(pods, what, write)
            case ResizePod():
                return await self._resize(pods, what, write)
        return WriteDone(write)

    async def _create(self, pods: str, action: Create, body: dict[str, Any]) -> Pod:
        try:
            return _pods.decode(await self.client.post(pods, body))
        except Conflict:
            there = _pods.decode(await self.client.get(f"{pods}/{action.name}"))
            if not same_mark(there, body):
                raise
            return there  # we created it and the answer was lost

    async def _keep(self, secrets: str, write: Write) -> None:
        try:
            await self.client.patch(f"{secrets}/{write.name}", write.body)
        except NotFound:
            await self.client.post(secrets, write.body)

    async def _make(self, path: str, body: dict[str, Any]) -> None:
        with contextlib.suppress(Conflict):  # it is there: its name has the uid of the job
            await self.client.post(path, body)

    async def _bind(self, pods: str, action: Bind) -> Pod | None:
        """None: it is bound. A pod that has changed is returned, and decided on again."""
        target = {"apiVersion": "v1", "kind": "Node", "name": action.node}
        metadata = {"name": action.name, **_as_it_was(action)}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            await self.client.post(f"{pods}/{action.name}/binding", body)
        except Conflict:
            there = _pods.decode(await self.client.get(f"{pods}/{action.name}"))
            same = there.metadata.uid == action.uid
            if same and (there.spec.nodeName == action.node or _is_later(there, action.version)):
                return there
            raise
        return None

    async def _resize(self, pods: str, action: ResizePod, write: Write) -> WriteDone:
        patch = {"metadata": _as_it_was(action), "spec": {"containers": [{"name": MAIN, "resources": write.body}]}}
        try:
            answer = await self.client.patch(f"{pods}/{action.name}/resize", patch, STRATEGIC_PATCH)
            return WriteDone(write, _pods.decode(answer))
        except Conflict:
            return await self._looked_at(pods, action, write)

    async def _ungate(self, pods: str, action: Ungate, write: Write) -> WriteDone:
        try:
            return WriteDone(write, _pods.decode(await self.client.patch(f"{pods}/{action.name}", write.body)))
        except Conflict:
            return await self._looked_at(pods, action, write)

    async def _delete(self, pods: str, action: Delete, write: Write) -> WriteDone:
        body: dict[str, Any] = {"preconditions": _as_it_was(action)}
        if action.grace is not None:
            body["gracePeriodSeconds"] = action.grace
        try:
            answer = await self.client.delete(f"{pods}/{action.name}", body)
        except NotFound:
            return WriteDone(write, gone=True)
        except Conflict:
            return await self._looked_at(pods, action, write)
        meta = _bare.decode(answer).metadata
        if action.grace == 0 or meta.uid != action.uid or meta.deletionTimestamp is None:
            return WriteDone(write, gone=True)  # the answer was a status, or the last state of the pod
        return WriteDone(write, _pods.decode(answer))

    async def _looked_at(self, pods: str, action: Delete | Ungate | ResizePod, write: Write) -> WriteDone:
        """After a conflict. A pod that is another one, or has changed, is decided on again; else it was refused."""
        try:
            there = _pods.decode(await self.client.get(f"{pods}/{action.name}"))
        except NotFound:
            return WriteDone(write, gone=True)
        if there.metadata.uid != action.uid:
            return WriteDone(write, gone=True)
        if action.version in ("", there.metadata.resourceVersion):
            raise Conflict(409, f"pod {action.name} has not changed, and the server refuses")
        return WriteDone(write, there)


def _as_it_was(action: Bind | Delete | ResizePod) -> dict[str, str]:
    """Which pod, and in which version."""
    return {"uid": action.uid} | ({"resourceVersion": action.version} if action.version else {})


def _is_later(pod: Pod, version: str) -> bool:
    return bool(version) and pod.metadata.resourceVersion != version and not pod.spec.nodeName


def fault(error: Exception) -> Faulty:
    """An error that is none of the API server's."""
    return Faulty(0, f"{type(error).__name__}: {error}")
