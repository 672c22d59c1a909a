"""The pods of the benchmark: one-GPU pods alone, and the same number in gangs of 1 to 64."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

from headway.core.job import Job, Role
from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Create
from headway.kube.pods.body import pod_of
from headway.kube.settings import PodDefaults

GPU = "nvidia.com/gpu"
LARGEST = 64


@dataclass(frozen=True, slots=True)
class Gang:
    name: str
    size: int

    @property
    def members(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.size)]


_runs = itertools.count(1)
"""Names are never used twice: a late deletion must not hit a pod of the next run."""


def singles(count: int) -> list[Gang]:
    run = next(_runs)
    return [Gang(f"s{run}-{number:05}", 1) for number in range(count)]


def gangs(count: int, seed: int) -> list[Gang]:
    """Gangs of uniformly drawn sizes with so many pods in all."""
    dice, run = random.Random(seed), next(_runs)
    made: list[Gang] = []
    while count:
        size = min(count, dice.randint(1, LARGEST))
        made.append(Gang(f"g{run}-{len(made):05}", size))
        count -= size
    return made


def pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "resources": {"limits": {GPU: "1"}, "requests": {"cpu": "1"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "enableServiceLinks": False}
    return {"metadata": {"name": name}, "spec": spec}


AMOUNTS = (("cpu", 1000), ("gpu", 1))
DEFAULTS = PodDefaults(
    template={"spec": {"containers": [{"name": "main", "image": "any"}], "terminationGracePeriodSeconds": 0}},
    progress="tls:127.0.0.1:1", authority="-" * 700,
)  # fmt: skip


def made_by_headway(gang: Gang) -> list[dict[str, Any]]:
    """The pods that Headway makes for a TrainingJob, without their owner and signature."""
    role = Role(name="worker", replicas=gang.size, min=gang.size, max=gang.size, request=AMOUNTS)
    meta, job = Meta(name=gang.name, namespace="bench"), Job(id=f"bench/{gang.name}", roles=(role,))
    hosts = (("worker", tuple(f"worker-{number}.{gang.name}:2222" for number in range(gang.size))),)
    counts, pods = (("worker", gang.size),), []
    for index, name in enumerate(gang.members):
        create = Create(name, "worker", index, 0, "", AMOUNTS, hosts, counts, subdomain=gang.name)
        body = pod_of(create, job, meta, {}, DEFAULTS)
        del body["metadata"]["ownerReferences"]
        pods.append(body)
    return pods


def plain(gang: Gang) -> list[dict[str, Any]]:
    return [pod(name) for name in gang.members]


def for_headway(gang: Gang) -> list[dict[str, Any]]:
    """Bare pods that name Headway as their scheduler."""
    made = plain(gang)
    for one in made:
        one["spec"]["schedulerName"] = "headway"
    return made


def training_job(gang: Gang) -> dict[str, Any]:
    role = {"replicas": gang.size, "gpu": 1, "cpu": "1"}
    kind = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob"}
    return {**kind, "metadata": {"name": gang.name}, "spec": {"roles": {"worker": role}, "checkpoints": False}}


def batch_job(gang: Gang) -> dict[str, Any]:
    """The same as a Job of Kubernetes itself, whose controller makes the pods."""
    spec = {**pod(gang.name)["spec"], "restartPolicy": "Never"}
    job = {"parallelism": gang.size, "completions": gang.size, "completionMode": "Indexed", "backoffLimit": 0}
    return {"metadata": {"name": gang.name}, "spec": {**job, "template": {"spec": spec}}}


def in_pod_group(gang: Gang) -> list[dict[str, Any]]:
    """Members of Kubernetes' own gang."""
    made = plain(gang)
    for one in made:
        one["spec"]["schedulingGroup"] = {"podGroupName": gang.name}
    return made


def in_group(gang: Gang) -> list[dict[str, Any]]:
    """Members of a group by label, for Headway beside the native scheduler."""
    made = plain(gang)
    for one in made if gang.size > 1 else ():
        one["metadata"]["labels"] = {"headway.dev/group": gang.name, "headway.dev/group-size": str(gang.size)}
    return made


def in_kueue(gang: Gang) -> list[dict[str, Any]]:
    """Members of a plain pod group in Kueue's queue."""
    made = plain(gang)
    for one in made:
        labels = {"kueue.x-k8s.io/queue-name": "bench"}
        if gang.size > 1:
            labels["kueue.x-k8s.io/pod-group-name"] = gang.name
            one["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(gang.size)}
        one["metadata"]["labels"] = labels
    return made
