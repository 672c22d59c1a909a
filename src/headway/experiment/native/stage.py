"""The stage: a lab's API server with simulated nodes, on which a scheduler places the pods of simulated jobs.

Here the effects of the trainer double become requests, and what the API server shows becomes what the double sees.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

from headway.core.job import JobId
from headway.experiment.native.trainers import PodSeen
from headway.kube.api.access import Access
from headway.kube.api.client import STRATEGIC_PATCH, Client
from headway.kube.api.errors import ApiError, Conflict, Denied, NotFound
from headway.kube.api.objects import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOB, LABEL_ROLE, Pod, timestamp
from headway.kube.api.watch import Changed, Deleted, Follower, Listed, number_of

NAMESPACE = "proof"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
AT_ONCE = 16
BARRIER = "barrier"
SECONDS = 30.0
"""After this without an answer something is broken."""


class Stage:
    """Use as an async context manager. `seen` has what the watch has told and nobody has taken yet."""

    def __init__(self, access: Access, began: float) -> None:
        self._access, self._began = access, began
        self.seen: list[Changed[Pod] | Deleted[Pod]] = []
        self.position = 0
        """The version up to which the watch has told all."""
        self._number = 0
        self._came = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.client = await Client(self._access).__aenter__()
        await self.client.post(PODS, _barrier())
        self._following = asyncio.create_task(Follower(self.client, PODS, Pod, self._tell).follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await self.client.__aexit__(None, None, None)

    def _tell(self, news: Any) -> None:
        match news:
            case Listed(objects=objects, version=version):
                self.seen += [Changed(Pod, pod) for pod in objects]
                self.position = max(self.position, version)
            case Changed(object=pod) | Deleted(object=pod):
                self.seen.append(news)
                self.position = max(self.position, number_of(pod.metadata.resourceVersion))
        self._came.set()

    async def barrier(self) -> int:
        """The version of a write that comes after all that were answered before. The watch has told all up to it."""
        self._number += 1
        body = {"metadata": {"annotations": {"headway.dev/lab-barrier": str(self._number)}}}
        answer = json.loads(await self.client.patch(f"{PODS}/{BARRIER}", body))
        at = number_of(answer["metadata"]["resourceVersion"])
        async with asyncio.timeout(SECONDS):
            while self.position < at:
                self._came.clear()
                await self._came.wait()
        return at

    async def came(self, seconds: float) -> None:
        """Until the watch has told something, for so many seconds at most."""
        self._came.clear()
        if not self.seen:
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    await self._came.wait()
            except TimeoutError:
                return

    def take(self) -> list[Changed[Pod] | Deleted[Pod]]:
        taken, self.seen = self.seen, []
        return [news for news in taken if LABEL_JOB in news.object.metadata.labels]

    # ── requests ──

    async def each(self, works: Iterable[Awaitable[Any]]) -> None:
        """All of these, a few at a time."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(work: Awaitable[Any]) -> None:
            async with slots:
                await work

        await asyncio.gather(*(one(work) for work in works))

    async def create(self, body: dict[str, Any]) -> None:
        await self.client.post(PODS, body)

    async def would_create(self, body: dict[str, Any]) -> bool:
        """Whether the API server admits this pod by now."""
        try:
            await self.client.post(f"{PODS}?dryRun=All", body)
        except Denied:
            return False
        return True

    async def comes_up(self, pod: PodSeen, now: float) -> None:
        await self._status(pod, _running(timestamp(self._began + now)))

    async def ends(self, pod: PodSeen, now: float, *, well: bool) -> None:
        await self._status(pod, _ended(timestamp(self._began + now), well=well))

    async def leaves(self, pod: PodSeen) -> None:
        await _unless_gone(lambda: self.client.delete(
            f"{PODS}/{pod.name}", {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        ))  # fmt: skip

    async def _status(self, pod: PodSeen, status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await _unless_gone(lambda: self.client.patch(f"{PODS}/{pod.name}/status", body, STRATEGIC_PATCH))


async def _unless_gone(send: Callable[[], Awaitable[Any]]) -> None:
    """A pod may be deleted meanwhile."""
    try:
        await send()
    except (NotFound, Conflict):
        return
    except ApiError as error:
        if "uid" not in str(error):
            raise


def pod_seen(pod: Pod) -> PodSeen:
    labels = pod.metadata.labels
    return PodSeen(
        pod.metadata.name, pod.metadata.uid, JobId(labels[LABEL_JOB]), labels.get(LABEL_ROLE, ""),
        int(labels.get(LABEL_INDEX, "0")), int(labels.get(LABEL_ATTEMPT, "0")), pod.spec.nodeName,
        pod.metadata.deletionTimestamp is not None, float(pod.metadata.deletionGracePeriodSeconds or 0),
        pod.status.phase in ("Succeeded", "Failed"),
    )  # fmt: skip


def _barrier() -> dict[str, Any]:
    """A pod that nobody schedules: a write to it comes after all that were written before."""
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "any"}]}
    return {"metadata": {"name": BARRIER}, "spec": spec}


def _running(moment: str) -> dict[str, Any]:
    moment = f"{moment[:19]}Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": moment}
        for kind in ("Initialized", "ContainersReady", "Ready")
    ]
    main = {"name": "main", "image": "any", "imageID": "", "ready": True, "started": True, "restartCount": 0}
    return {
        "phase": "Running", "startTime": moment, "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": conditions, "containerStatuses": [{**main, "state": {"running": {"startedAt": moment}}}],
    }  # fmt: skip


def _ended(moment: str, *, well: bool) -> dict[str, Any]:
    moment = f"{moment[:19]}Z"
    main = {"name": "main", "image": "any", "imageID": "", "ready": False, "started": False, "restartCount": 0}
    over = {"exitCode": 0 if well else 1, "reason": "Completed" if well else "Error", "finishedAt": moment}
    return {
        "phase": "Succeeded" if well else "Failed",
        "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": moment}],
        "containerStatuses": [{**main, "state": {"terminated": {**over, "startedAt": moment}}}],
    }
