"""The requests about the pods of one job, and what each answer means."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.kube.api.client import STRATEGIC_PATCH, Client
from headway.kube.api.errors import ApiError, Conflict, Faulty, NotFound, Unreachable
from headway.kube.api.objects import Bare, Pod
from headway.kube.job.pod_marks import MARK, owner_uid
from headway.kube.job.replica import MAIN
from headway.kube.reconcile.model import Bind, Create, Delete, Publish, Release, ResizePod, SetCondition
from headway.kube.turns import Turns
from headway.kube.work import ActionResult, ApiWork, PodRequest

log = logging.getLogger("headway.kube")
_pods = msgspec.json.Decoder(Pod)
_bare = msgspec.json.Decoder(Bare)


@dataclass(frozen=True, slots=True)
class PodRequests:
    client: Client
    turns: Turns

    async def take(self, work: ApiWork, request: PodRequest) -> ActionResult:
        try:
            async with self.turns.of(work.namespace):
                return await self._sent(work, request)
        except ApiError as error:
            return ActionResult(request.action, error=error)
        except msgspec.DecodeError as error:
            why = f"the server did not answer with a pod: {error}"
            return ActionResult(request.action, error=Unreachable(0, why))
        except Exception as error:  # noqa: BLE001  the other actions of the job must not be lost with it
            return ActionResult(request.action, error=fault(error))

    async def _sent(self, work: ApiWork, request: PodRequest) -> ActionResult:
        action, inside = request.action, f"/api/v1/namespaces/{work.namespace}"
        pods = f"{inside}/pods"
        match action:
            case Create():
                return ActionResult(action, await self._create(pods, work.uid, action, request.body))
            case Publish():
                await self._make(f"{inside}/services", request.body)
            case Release():
                await self._make(f"{inside}/configmaps", request.body)
            case SetCondition():
                await self.client.patch(f"{pods}/{action.name}/status", request.body, STRATEGIC_PATCH)
            case Bind():
                return ActionResult(action, await self._bind(pods, action))
            case Delete():
                return await self._delete(pods, action)
            case ResizePod():
                return ActionResult(action, await self._resize(pods, action, request.body))
        return ActionResult(action)

    async def _create(self, pods: str, uid: str, action: Create, body: dict[str, Any]) -> Pod:
        try:
            return _pods.decode(await self.client.post(pods, body))
        except Conflict:
            there = _pods.decode(await self.client.get(f"{pods}/{action.name}"))
            if owner_uid(there) != uid:
                raise
        if there.metadata.annotations.get(MARK) == body.get("metadata", {}).get("annotations", {}).get(MARK, ""):
            return there  # we created it and the answer was lost
        log.warning("pod %s says that it is of this job, but Headway did not make it: it is deleted", action.name)
        await self._delete(pods, Delete(action.name, there.metadata.uid, grace=0))
        return _pods.decode(await self.client.post(pods, body))

    async def _make(self, path: str, body: dict[str, Any]) -> None:
        with contextlib.suppress(Conflict):  # it is there: its name has the uid of the job
            await self.client.post(path, body)

    async def _bind(self, pods: str, action: Bind) -> Pod | None:
        target = {"apiVersion": "v1", "kind": "Node", "name": action.node}
        metadata = {"name": action.name, "uid": action.uid}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            await self.client.post(f"{pods}/{action.name}/binding", body)
        except Conflict:
            there = _pods.decode(await self.client.get(f"{pods}/{action.name}"))
            if there.metadata.uid == action.uid and there.spec.nodeName == action.node:
                return there
            raise
        return None

    async def _delete(self, pods: str, action: Delete) -> ActionResult:
        body: dict[str, Any] = {"preconditions": {"uid": action.uid}}
        if action.grace is not None:
            body["gracePeriodSeconds"] = action.grace
        try:
            answer = await self.client.delete(f"{pods}/{action.name}", body)
        except (NotFound, Conflict):
            return ActionResult(action, gone=True)
        meta = _bare.decode(answer).metadata
        if action.grace == 0 or meta.uid != action.uid or meta.deletionTimestamp is None:
            return ActionResult(action, gone=True)  # the answer was a status, or the last state of the pod
        return ActionResult(action, _pods.decode(answer))

    async def _resize(self, pods: str, action: ResizePod, body: dict[str, Any]) -> Pod:
        patch = {"spec": {"containers": [{"name": MAIN, "resources": body}]}}
        return _pods.decode(await self.client.patch(f"{pods}/{action.name}/resize", patch, STRATEGIC_PATCH))


def fault(error: Exception) -> Faulty:
    """An error that is none of the API server's."""
    return Faulty(0, f"{type(error).__name__}: {error}")
