"""The pods of the benchmark: one-GPU pods alone, and the same number in gangs of 1 to 64."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

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


def plain(gang: Gang) -> list[dict[str, Any]]:
    return [pod(name) for name in gang.members]


def in_pod_group(gang: Gang) -> list[dict[str, Any]]:
    """Members of Kubernetes' own gang."""
    made = plain(gang)
    for one in made:
        one["spec"]["schedulingGroup"] = {"podGroupName": gang.name}
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
