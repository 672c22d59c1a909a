"""The native scheduler as the proof sees it: it takes pods, and its own metrics tell when it has nothing left to do."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self, TypeVar

import aiohttp

from headway.core.job import Job
from headway.core.quantity import CPU, GPU, MEMORY
from headway.experiment.native.stage import NAMESPACE, Stage
from headway.experiment.native.trainers import PodSeen
from headway.kube.api.objects import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOB, LABEL_ROLE
from headway.lab import Lab
from headway.lab.simulated_nodes import GPU as GPU_RESOURCE
from headway.lab.simulated_nodes import HANDS_OFF

PENDING = re.compile(rb'^scheduler_pending_pods\{.*?queue="(\w+)".*?\} (\S+)$', re.MULTILINE)
BINDING = re.compile(rb'^scheduler_goroutines\{operation="binding"\} (\S+)$', re.MULTILINE)
GROUPS = re.compile(rb'^scheduler_podgroup_schedule_attempts_total\{.*?result="(\w+)".*?\} (\S+)$', re.MULTILINE)
WORKING = ("active", "backoff")
ROUNDS = 2
"""Groups that wait are tried without end; so often each has been tried since a change when nothing comes of it."""


def pods_of(job: Job, attempt: int) -> list[dict[str, Any]]:
    """The pods of a job as an ordinary controller makes them: all replicas at once."""
    bodies = []
    for role in job.roles:
        amounts = dict(role.request)
        asks = {"cpu": f"{amounts.get(CPU, 0)}m", "memory": f"{amounts.get(MEMORY, 0)}Mi",
                GPU_RESOURCE: str(amounts.get(GPU, 0))}  # fmt: skip
        main = {"name": "main", "image": "any", "resources": {"requests": asks, "limits": asks}}
        for index in range(role.replicas):
            labels = {LABEL_JOB: job.id, LABEL_ROLE: role.name, LABEL_INDEX: str(index), LABEL_ATTEMPT: str(attempt)}
            meta = {"name": f"{job.id}-{attempt}-{role.name}-{index}", "labels": labels, "annotations": {HANDS_OFF: ""}}
            spec = {"containers": [main], "restartPolicy": "Never", "enableServiceLinks": False}
            if job.priority:
                spec["priorityClassName"] = class_of(job.priority)
            bodies.append({"metadata": meta, "spec": spec})
    return bodies


KUEUE_API = "/apis/kueue.x-k8s.io/v1beta1"
QUEUE, GROUP_NAME = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
GROUP_COUNT = "kueue.x-k8s.io/pod-group-total-count"
NAME = "proof"
QUIET_SECONDS = 1.5
"""It tells nobody that it has nothing to do. When nothing has changed for this long, it has not."""


def class_of(priority: int) -> str:
    return f"level-{priority}"


T = TypeVar("T")
KNOWN_SECONDS = 30.0


async def _known(ask: Callable[[], Awaitable[T | None]]) -> T:
    """The answer, once a server's own watches have told it of a class that is new, or of the rights to its metrics."""
    async with asyncio.timeout(KNOWN_SECONDS):
        while True:
            found = await ask()
            if found:
                return found
            await asyncio.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Look:
    """What its metrics say at one moment."""

    queues: dict[str, int]
    placed: int
    """Groups, up to now."""
    refused: int
    """Times that a group was tried in vain."""
    binding: int

    def at_rest(self, unbound: int) -> bool:
        return not sum(self.queues.get(name, 0) for name in WORKING) and sum(self.queues.values()) == unbound


class NativeScheduler:
    """Use as an async context manager."""

    sees_pods, hears_scripts = True, False

    def __init__(self, lab: Lab, *, groups: bool = False) -> None:
        """`groups`: the pods of a job are a PodGroup, which is placed whole or not at all."""
        self._lab, self._groups = lab, groups
        part = next(part for part in lab.status().parts if part.name == "kube-scheduler")
        self._url = f"https://127.0.0.1:{part.port}/metrics"
        self._attempts: dict[str, int] = {}
        self._classes: set[str] = set()
        self._remade = 0
        self._mark: Look | None = None
        """What its metrics said after something had last happened."""

    async def __aenter__(self) -> Self:
        context = self._lab.ssl_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it signs its own certificate
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def submit(self, stage: Stage, job: Job) -> None:
        """Again, too, after its pods have failed."""
        attempt = self._attempts[job.id] = self._attempts.get(job.id, -1) + 1
        bodies = pods_of(job, attempt)
        if job.priority:
            await self._make_class(stage, job.priority, bodies[0])
        if self._groups:
            await self._make_group(stage, job, attempt, len(bodies))
        await self._create(stage, job, attempt, bodies)

    async def remake(self, stage: Stage, job: Job, pod: PodSeen) -> None:
        """In the place of one that was preempted; it is of the same group."""
        labels = {LABEL_ROLE: pod.role, LABEL_INDEX: str(pod.index)}
        (body,) = [one for one in pods_of(job, pod.attempt) if labels.items() <= one["metadata"]["labels"].items()]
        self._remade += 1
        body["metadata"]["name"] += f"-{self._remade}"
        await self._create(stage, job, pod.attempt, [body])

    async def _create(self, stage: Stage, job: Job, attempt: int, bodies: Sequence[dict[str, Any]]) -> None:
        for body in bodies if self._groups else ():
            body["spec"]["schedulingGroup"] = {"podGroupName": f"{job.id}-{attempt}"}
        await stage.each(stage.create(body) for body in bodies)

    async def _make_class(self, stage: Stage, priority: int, pod: dict[str, Any]) -> None:
        path, name = "/apis/scheduling.k8s.io/v1/priorityclasses", class_of(priority)
        if name not in self._classes:
            self._classes.add(name)
            await stage.client.post(path, {"metadata": {"name": name}, "value": priority})
            await _known(lambda: stage.would_create(pod))

    def disturb(self) -> None:
        self._mark = None

    async def rest(self, _barrier: int, unbound: AbstractSet[str]) -> bool:
        """Whether it has tried all pods that it knows, and none is on its way to a node.

        Kubernetes 1.36 tries a group that does not fit again and again, without a pause. It is at rest when it has
        tried all groups that wait, and placed none. Its metrics count the attempts of all groups together: groups come
        in turn, so with `ROUNDS` for each that waits each has had one, unless another has come thrice before.
        """
        look, mark = await self._look(), self._mark
        if look.at_rest(len(unbound)):
            return True
        if not self._groups or mark is None or look.placed != mark.placed:
            self._mark = look
            return False
        waiting = {name.partition("-")[0] for name in unbound}
        return not look.binding and look.refused - mark.refused >= ROUNDS * len(waiting)

    def until(self) -> float:
        """It does nothing by itself at a later moment: its back-off queue is empty."""
        return float("inf")

    async def _metrics(self) -> bytes | None:
        async with self._session.get(self._url) as response:
            if response.status == HTTPStatus.FORBIDDEN:
                return None
            response.raise_for_status()
            return await response.read()

    async def _look(self) -> Look:
        text = await _known(self._metrics)
        queues, tried = ({name.decode(): int(float(count)) for name, count in one.findall(text)}
                         for one in (PENDING, GROUPS))  # fmt: skip
        binding = BINDING.search(text)
        at_work = 0 if binding is None else int(float(binding[1]))
        return Look(queues, tried.get("scheduled", 0), tried.get("unschedulable", 0), at_work)

    async def _make_group(self, stage: Stage, job: Job, attempt: int, size: int) -> None:
        version = f"scheduling.k8s.io/{self._lab.gang_version}"
        body = {
            "apiVersion": version, "kind": "PodGroup", "metadata": {"name": f"{job.id}-{attempt}"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
        }  # fmt: skip
        await stage.client.post(f"/apis/{version}/namespaces/{NAMESPACE}/podgroups", body)


class KueueScheduler(NativeScheduler):
    """Kueue before the native scheduler: it holds the pods of a job back until its quota has room."""

    sees_pods = False

    def __init__(self, lab: Lab, gpus: int) -> None:
        super().__init__(lab)
        self._gpus, self._changed_at = gpus, time.monotonic()

    def make_queue(self) -> None:
        """One queue with a quota of exactly the cluster's GPUs."""
        kind, post = {"apiVersion": "kueue.x-k8s.io/v1beta1"}, self._lab.api.post
        post(f"{KUEUE_API}/resourceflavors", {**kind, "kind": "ResourceFlavor", "metadata": {"name": NAME}})
        amounts = {GPU_RESOURCE: self._gpus, "cpu": 10**6, "memory": "100Ti"}
        quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
        groups = [{"coveredResources": list(amounts), "flavors": [{"name": NAME, "resources": quotas}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        post(f"{KUEUE_API}/clusterqueues", {**kind, "kind": "ClusterQueue", "metadata": {"name": NAME}, "spec": spec})
        local = {**kind, "kind": "LocalQueue", "metadata": {"name": NAME}, "spec": {"clusterQueue": NAME}}
        post(f"{KUEUE_API}/namespaces/{NAMESPACE}/localqueues", local)

    async def _create(self, stage: Stage, job: Job, attempt: int, bodies: Sequence[dict[str, Any]]) -> None:
        width = sum(role.replicas for role in job.roles)
        for body in bodies:
            body["metadata"]["labels"][QUEUE] = NAME
            if width > 1:
                body["metadata"]["labels"][GROUP_NAME] = f"{job.id}-{attempt}"
                body["metadata"]["annotations"][GROUP_COUNT] = str(width)
        await super()._create(stage, job, attempt, bodies)

    def disturb(self) -> None:
        self._changed_at = time.monotonic()

    async def rest(self, barrier: int, unbound: AbstractSet[str]) -> bool:
        quiet = time.monotonic() - self._changed_at >= QUIET_SECONDS
        return quiet and await super().rest(barrier, unbound)
