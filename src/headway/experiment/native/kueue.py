"""Kueue before the native scheduler, as the proof sees it: it holds the pods of a job back until its quota has room."""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet

from headway.core.job import Job
from headway.experiment.native.native_queue import NativeScheduler, pods_of
from headway.experiment.native.stage import NAMESPACE, Stage
from headway.lab import Lab
from headway.lab.simulated_nodes import GPU as GPU_RESOURCE

API = "/apis/kueue.x-k8s.io/v1beta1"
QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"
NAME = "proof"
QUIET_SECONDS = 1.5
"""It tells nobody that it has nothing to do. When nothing has changed for this long, it has not."""


class KueueScheduler(NativeScheduler):
    sees_pods = False

    def __init__(self, lab: Lab, gpus: int) -> None:
        super().__init__(lab)
        self._gpus, self._changed_at = gpus, time.monotonic()

    def make_queue(self) -> None:
        """One queue with a quota of exactly the cluster's GPUs."""
        kind, post = {"apiVersion": "kueue.x-k8s.io/v1beta1"}, self._lab.api.post
        post(f"{API}/resourceflavors", {**kind, "kind": "ResourceFlavor", "metadata": {"name": NAME}})
        amounts = {GPU_RESOURCE: self._gpus, "cpu": 10**6, "memory": "100Ti"}
        quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
        groups = [{"coveredResources": list(amounts), "flavors": [{"name": NAME, "resources": quotas}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        post(f"{API}/clusterqueues", {**kind, "kind": "ClusterQueue", "metadata": {"name": NAME}, "spec": spec})
        local = {**kind, "kind": "LocalQueue", "metadata": {"name": NAME}, "spec": {"clusterQueue": NAME}}
        post(f"{API}/namespaces/{NAMESPACE}/localqueues", local)

    async def submit(self, stage: Stage, job: Job) -> None:
        bodies = pods_of(job, 0)
        for body in bodies:
            body["metadata"]["labels"][QUEUE] = NAME
            if len(bodies) > 1:
                body["metadata"]["labels"][GROUP] = str(job.id)
                body["metadata"]["annotations"][COUNT] = str(len(bodies))
        await stage.each(stage.create(body) for body in bodies)

    def disturb(self) -> None:
        self._changed_at = time.monotonic()

    async def rest(self, barrier: int, unbound: AbstractSet[str]) -> bool:
        quiet = time.monotonic() - self._changed_at >= QUIET_SECONDS
        return quiet and await super().rest(barrier, unbound)
