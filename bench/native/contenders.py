"""Who binds the pods: the native scheduler alone, with Jobs, with its own gangs, Kueue before it, and Headway."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client import NAMESPACE, PODS, TELL_SECONDS, Client, say

from headway.lab import Lab
from workload import (
    Gang,
    batch_job,
    for_headway,
    in_group,
    in_kueue,
    in_pod_group,
    made_by_headway,
    plain,
    training_job,
)

HEADWAY = [sys.executable, "-c", "from headway.cli import main; main()"]
BATCH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
JOBS = f"/apis/headway.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs"
LISTED = "scheduling with policy"
"""Headway says so when it has listed everything."""
KUEUE_API = "/apis/kueue.x-k8s.io/v1beta1"
WORKLOADS = f"{KUEUE_API}/namespaces/{NAMESPACE}/workloads"
MERGE = "application/merge-patch+json"
READING_SECONDS = 300.0
"""So long Kueue may take to make its own object for every gang before its queue is opened."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A way of getting pods bound."""

    name: str
    pods: Callable[[Gang], list[dict[str, Any]]]
    quiet: float
    """Seconds without a binding that count as standstill: longer than its longest back-off or planning."""
    pod_groups: bool = False
    kueue: bool = False
    headway: bool = False
    jobs: bool = False
    """TrainingJobs, whose pods Headway makes itself; else bare pods that name it as their scheduler."""
    beside: bool = False
    """Gated pods that the native scheduler binds when Headway lets them."""
    batch: bool = False
    """Jobs of Kubernetes itself, whose pods the controller manager makes."""
    running: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)
    """Headway's process, and the file with what it says."""

    @property
    def gangs(self) -> bool:
        """Whether it knows of gangs, and starts them whole or not at all."""
        return self.pod_groups or self.kueue or self.jobs or self.beside

    @property
    def made(self) -> Callable[[Gang], list[dict[str, Any]]] | None:
        """The pods that it makes itself, if it does: the ceiling makes the same (of Jobs: without what marks them)."""
        return made_by_headway if self.jobs else plain if self.batch else None

    @property
    def parts(self) -> list[str]:
        """The parts of the lab that do the work, in the order in which they are let go."""
        return ["kube-scheduler", "kube-controller-manager"] if self.batch else ["kube-scheduler"]

    @property
    def operators(self) -> list[str]:
        return ["kueue"] if self.kueue else []

    async def submit(self, client: Client, work: Iterable[Gang]) -> None:
        gangs = list(work)
        if self.jobs:
            await client.each(lambda gang: client.request("POST", JOBS, training_job(gang)), gangs)
            return
        if self.batch:
            await client.each(lambda gang: client.request("POST", BATCH, batch_job(gang)), gangs)
            return
        if self.pod_groups:
            path = f"/apis/{client.gang_version}/namespaces/{NAMESPACE}/podgroups"
            await client.each(lambda gang: client.request("POST", path, pod_group(gang, client.gang_version)), gangs)
        await client.create_pods(pod for gang in gangs for pod in self.pods(gang))

    async def clear(self, client: Client, work: Iterable[Gang]) -> None:
        gangs = list(work)
        names = [pod for gang in gangs for pod in gang.members]
        if self.kueue:  # it keeps the pods of a group until all have finished
            free = {"metadata": {"finalizers": None}}
            await client.each(lambda name: client.request("PATCH", f"{PODS}/{name}", free, MERGE), names)
        await client.delete_pods(names)
        if self.pod_groups:
            path = f"/apis/{client.gang_version}/namespaces/{NAMESPACE}/podgroups"
            await client.each(lambda gang: client.request("DELETE", f"{path}/{gang.name}"), gangs)

    def hold(self, lab: Lab) -> None:
        """Let nothing be placed while the pods are made."""
        if self.kueue:
            _stop_policy(lab, "Hold")
            return
        if not self.beside:
            for part in self.parts:
                lab.kill(part)
        if self.headway:
            lab.api.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": {"headway.dev/beside": "true"}}})
            more = ["--beside"] if self.beside else []
            install = [*HEADWAY, "schedule", "--install", "--kubeconfig", str(lab.kubeconfig), *more]
            subprocess.run(install, check=True)

    async def prepared(self, client: Client, gangs: int) -> None:
        """Until it knows all gangs: Kueue writes an object for each, which is not counted against it."""
        began = told = time.monotonic()
        while self.kueue and (known := await count(client, WORKLOADS)) < gangs:
            now = time.monotonic()
            if now - began > READING_SECONDS:
                say(f"  it knows only {known} of {gangs} gangs after {READING_SECONDS:.0f} s")
                return
            if now - told > TELL_SECONDS:
                told = now
                say(f"  it knows {known} of {gangs} gangs after {now - began:.0f} s")
            await asyncio.sleep(1)

    def release(self, lab: Lab) -> None:
        if self.kueue:
            _stop_policy(lab, "None")
        elif self.headway:
            self.running.append(_headway(lab, beside=self.beside))
        else:
            for part in self.parts:
                lab.restart(part)

    def end(self, lab: Lab) -> None:
        """A lab checks that its own parts are alive."""
        while self.running:
            process, _ = self.running.pop()
            process.terminate()
            process.wait(30)
            if not self.beside:
                lab.restart("kube-scheduler")

    def has_listed(self) -> bool:
        return bool(self.running) and LISTED in self.running[-1][1].read_text(errors="replace")

    def pids(self, lab: Lab) -> list[int]:
        """Of the scheduler, and of who makes the pods."""
        own = [process.pid for process, _ in self.running]
        if self.headway and not self.beside:
            return own
        return [*own, *(part.pid for part in lab.status().parts if part.name in self.parts and part.pid is not None)]

    async def all_run(self, client: Client, gangs: list[Gang]) -> bool:
        """Whether the status of every job says that it runs."""
        if self.jobs:
            found = (await client.request("GET", JOBS))["items"]
            return sum(one.get("status", {}).get("phase") == "Running" for one in found) == len(gangs)
        found = (await client.request("GET", BATCH))["items"]
        return sum(one.get("status", {}).get("ready", 0) for one in found) == sum(gang.size for gang in gangs)


CONTENDERS = {
    "native": Contender("native", plain, 15),
    "batch": Contender("native, Jobs", plain, 60, batch=True),
    "podgroup": Contender("native, PodGroup", in_pod_group, 150, pod_groups=True),
    "kueue": Contender("kueue + native", in_kueue, 90, kueue=True),
    "headway": Contender("headway, TrainingJobs", plain, 60, headway=True, jobs=True),
    "beside": Contender("headway beside native", in_group, 60, headway=True, beside=True),
    "headway-pods": Contender("headway, bare pods", for_headway, 60, headway=True),
}


def _headway(lab: Lab, *, beside: bool) -> tuple[subprocess.Popen[bytes], Path]:
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    (folder / "template.yaml").write_text("spec: {containers: [{name: main, image: any}]}\n")
    command = [
        *HEADWAY, "schedule", "--kubeconfig", str(lab.kubeconfig), "--namespace", "all", "--measure", "off",
        "--template", str(folder / "template.yaml"), "--progress-listen", "127.0.0.1:0", "--progress-address",
        "127.0.0.1:1", *(["--beside"] if beside else []),
    ]  # fmt: skip
    with (folder / "said").open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out), folder / "said"


async def count(client: Client, path: str) -> int:
    listed = await client.request("GET", f"{path}?limit=1")
    return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))


def pod_group(gang: Gang, version: str) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": gang.size}}}
    kind = {"apiVersion": version, "kind": "PodGroup"}
    return {**kind, "metadata": {"name": gang.name}, "spec": spec}


def make_queue(lab: Lab, gpus: int) -> None:
    """One Kueue queue with a quota of exactly the cluster's GPUs."""
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta1"}
    quotas = [{"name": "nvidia.com/gpu", "nominalQuota": gpus}, {"name": "cpu", "nominalQuota": 10**6}]
    flavor = {"name": "any", "resources": quotas}
    groups = [{"coveredResources": ["nvidia.com/gpu", "cpu"], "flavors": [flavor]}]
    lab.api.post(f"{KUEUE_API}/resourceflavors", {**kind, "kind": "ResourceFlavor", "metadata": {"name": "any"}})
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    queue = {**kind, "kind": "ClusterQueue", "metadata": {"name": "bench"}, "spec": spec}
    lab.api.post(f"{KUEUE_API}/clusterqueues", queue)
    local = {**kind, "kind": "LocalQueue", "metadata": {"name": "bench"}, "spec": {"clusterQueue": "bench"}}
    lab.api.post(f"{KUEUE_API}/namespaces/{NAMESPACE}/localqueues", local)


def _stop_policy(lab: Lab, policy: str) -> None:
    lab.api.patch(f"{KUEUE_API}/clusterqueues/bench", {"spec": {"stopPolicy": policy}}, MERGE)
