"""How fast and how well others place gangs: the figures to beat. Run it with `python bench/native/run.py`.

Throughput: all pods wait before the scheduler starts; pods per second from the first binding to the last. Latency:
pods (or gangs) come at a steady rate to an empty cluster; from the API server's answer to the moment a watch shows
the binding. Contention: gangs for twice as many GPUs as there are. A gang works only when it is whole; whole ones
finish and make room. A gang is half-started if, when nothing moves any more, some of its pods hold GPUs and others
wait; deadlocked ones are those that are half-started in the end, when no whole gang is left to make room.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop
from client import NAMESPACE, PODS, Client
from rich.console import Console
from rich.table import Table

from headway.lab import Lab, node_groups
from workload import Gang, gangs, in_kueue, in_pod_group, plain, singles

GANG_API = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
KUEUE_API = "/apis/kueue.x-k8s.io/v1beta1"
MERGE = "application/merge-patch+json"
SEED = 7
WORKLOADS: dict[str, Callable[[int], list[Gang]]] = {
    "single pods": singles,
    "gangs of 1-64": lambda pods: gangs(pods, SEED),
}


@dataclass(frozen=True, slots=True)
class Contender:
    """A way of getting pods bound."""

    name: str
    pods: Callable[[Gang], list[dict[str, Any]]]
    patience: float
    """Seconds without a binding that count as standstill: longer than its longest back-off or planning."""
    pod_groups: bool = False
    kueue: bool = False


CONTENDERS = {
    "native": Contender("native", plain, 15),
    "podgroup": Contender("native, PodGroup", in_pod_group, 150, pod_groups=True),
    "kueue": Contender("kueue + native", in_kueue, 90, kueue=True),
}


@dataclass(slots=True)
class Result:
    contender: str
    workload: str
    pods: int = 0
    bound: int = 0
    pods_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    half_started: int | None = None
    deadlocked: int | None = None
    gangs_finished: str = ""


class Bench:
    def __init__(self, lab: Lab, options: argparse.Namespace, results: list[Result]) -> None:
        self.lab, self.options, self.results = lab, options, results

    async def throughput(self, contender: Contender, name: str, work: list[Gang]) -> None:
        total = sum(gang.size for gang in work)
        say(f"{contender.name}: {total} pods, {name}")
        async with Client(self.lab) as client:
            self.hold(contender)
            await self.submit(client, contender, work)
            say("  created")
            self.release(contender)
            await client.settle(contender.patience, total)
            say(f"  {len(client.bound_at)} bound")
            result = self.row(contender, name)
            result.pods, result.bound, result.pods_per_second = total, len(client.bound_at), rate(client)
            await self.clear(client, contender, work)

    async def latency(self, contender: Contender, name: str, work: list[Gang], per_second: float) -> None:
        """Latency of a gang's pods counts from its last pod's creation: before that nobody could place it."""
        total = sum(gang.size for gang in work)
        say(f"{contender.name}: latency of {total} pods, {name}, {per_second:.0f} pods per second")
        async with Client(self.lab) as client:
            created: dict[str, float] = {}
            for gang in work:
                began = time.monotonic()
                await self.submit(client, contender, [gang])
                created |= dict.fromkeys(gang.members, time.monotonic())
                await asyncio.sleep(max(0, gang.size / per_second - (time.monotonic() - began)))
            await client.settle(contender.patience, total)
            waits = sorted(1000 * max(0, at - created[pod]) for pod, at in client.bound_at.items())
            say(f"  {len(waits)} bound")
            result = self.row(contender, name)
            if len(waits) > 1:
                cuts = statistics.quantiles(waits, n=100)
                result.p50_ms, result.p99_ms = cuts[49], cuts[98]
            await self.clear(client, contender, work)

    async def contention(self, contender: Contender, work: list[Gang], gpus: int) -> None:
        say(f"{contender.name}: gangs for {sum(gang.size for gang in work)} GPUs where {gpus} are free")
        async with Client(self.lab) as client:
            self.hold(contender)
            await self.submit(client, contender, work)
            self.release(contender)
            left, finished, first_partial = list(work), 0, None
            while True:
                await client.settle(contender.patience)
                whole = [gang for gang in left if all(pod in client.bound_at for pod in gang.members)]
                partial = [g for g in left if g not in whole and any(p in client.bound_at for p in g.members)]
                first_partial = len(partial) if first_partial is None else first_partial
                if not whole:
                    break
                finished += len(whole)
                left = [gang for gang in left if gang not in whole]
                await self.clear(client, contender, whole)
            bound = sum(pod in client.bound_at for gang in left for pod in gang.members)
            result = Result(contender.name, "gangs, half the GPUs", sum(g.size for g in work), bound)
            result.half_started, result.deadlocked = first_partial, len(partial)
            result.gangs_finished = f"{finished} of {len(work)}"
            self.results.append(result)
            await self.clear(client, contender, left)

    async def ceiling(self, nodes: int, work: list[Gang]) -> None:
        """The same bindings posted by a bare client with a pod watch running."""
        names = [pod for gang in work for pod in gang.members]
        say(f"bare client: {len(names)} bindings")
        async with Client(self.lab) as client:
            self.lab.kill("kube-scheduler")
            await self.submit(client, CONTENDERS["native"], work)
            pairs = [(name, f"sim-{1 + number % nodes:05}") for number, name in enumerate(names)]
            await client.each(lambda pair: client.bind(*pair), pairs)
            await client.settle(10, len(names))
            result = Result("bare client (ceiling)", "single pods", len(names), len(client.bound_at))
            result.pods_per_second = rate(client)
            self.results.append(result)
            await self.clear(client, CONTENDERS["native"], work)
            self.lab.restart("kube-scheduler")

    def row(self, contender: Contender, workload: str) -> Result:
        for result in self.results:
            if (result.contender, result.workload) == (contender.name, workload):
                return result
        self.results.append(Result(contender.name, workload))
        return self.results[-1]

    async def submit(self, client: Client, contender: Contender, work: list[Gang]) -> None:
        if contender.pod_groups:
            await client.each(lambda gang: client.request("POST", GANG_API, pod_group(gang)), work)
        await client.create_pods(pod for gang in work for pod in contender.pods(gang))

    async def clear(self, client: Client, contender: Contender, work: list[Gang]) -> None:
        names = [pod for gang in work for pod in gang.members]
        if contender.kueue:  # it keeps the pods of a group until all have finished
            free = {"metadata": {"finalizers": None}}
            await client.each(lambda name: client.request("PATCH", f"{PODS}/{name}", free, MERGE), names)
        await client.delete_pods(names)
        if contender.pod_groups:
            await client.each(lambda gang: client.request("DELETE", f"{GANG_API}/{gang.name}"), work)

    def hold(self, contender: Contender) -> None:
        """Let nothing be placed while the pods are made."""
        if contender.kueue:
            self.lab.api.patch(f"{KUEUE_API}/clusterqueues/bench", {"spec": {"stopPolicy": "Hold"}}, MERGE)
        else:
            self.lab.kill("kube-scheduler")

    def release(self, contender: Contender) -> None:
        if contender.kueue:
            self.lab.api.patch(f"{KUEUE_API}/clusterqueues/bench", {"spec": {"stopPolicy": "None"}}, MERGE)
        else:
            self.lab.restart("kube-scheduler")


def rate(client: Client) -> float | None:
    times = sorted(client.bound_at.values())
    return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else None


def pod_group(gang: Gang) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": gang.size}}}
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": gang.name}, "spec": spec}


def make_queues(lab: Lab, gpus: int) -> None:
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


async def measure(bench: Bench, gpus_per_node: int, contenders: list[Contender]) -> None:
    options = bench.options
    gpus = options.nodes * gpus_per_node
    if gpus >= options.pods:
        for contender in contenders:
            for name, make in WORKLOADS.items():
                await bench.latency(contender, name, make(options.pods // 8), options.rate)
            for name, make in WORKLOADS.items():  # the queues of some are busy long after all pods are gone
                await bench.throughput(contender, name, make(options.pods))
        if not any(contender.kueue for contender in contenders):
            await bench.ceiling(options.nodes, singles(options.pods))
    else:
        for contender in contenders:
            await bench.contention(contender, gangs(2 * gpus, SEED), gpus)


def run_on(
    shape: str, gpus_per_node: int, contenders: list[Contender], options: argparse.Namespace, results: list[Result]
) -> None:
    operators = ["kueue"] if any(contender.kueue for contender in contenders) else []
    say(f"starting a lab with {options.nodes} nodes of {shape} {' '.join(operators)}")
    nodes = node_groups(options.nodes, [shape])
    lab = Lab.up("bench-native", simulated=nodes, bench=True, gangs=True, operators=operators, owned=True)
    try:
        lab.create_namespace(NAMESPACE)
        if operators:
            make_queues(lab, options.nodes * gpus_per_node)
        uvloop.run(measure(Bench(lab, options, results), gpus_per_node, contenders))
    finally:
        lab.down()


def show(results: list[Result]) -> None:
    columns = ("by", "workload", "bound", "pods/s", "p50 ms", "p99 ms", "half-started", "deadlocked", "gangs finished")
    table = Table(*columns, title="binding pods and gangs")
    for one in results:
        numbers = (one.pods_per_second, one.p50_ms, one.p99_ms)
        shown = ["" if number is None else f"{number:.0f}" for number in numbers]
        counts = ["" if count is None else str(count) for count in (one.half_started, one.deadlocked)]
        table.add_row(one.contender, one.workload, f"{one.bound}/{one.pods}", *shown, *counts, one.gangs_finished)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--rate", type=float, default=50, help="pods per second while latency is measured")
    parser.add_argument("--only", choices=["speed", "contention"])
    parser.add_argument("--by", default=",".join(CONTENDERS), help="which contenders (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    if unknown := set(options.by.split(",")) - set(CONTENDERS):
        parser.error(f"--by: there is no {min(unknown)!r}, only {', '.join(CONTENDERS)}")
    chosen = [CONTENDERS[name] for name in options.by.split(",")]
    rounds = [[one for one in chosen if one.kueue is kueue] for kueue in (False, True)]
    results: list[Result] = []
    try:
        for contenders in filter(None, rounds):  # Kueue's webhooks see every pod, so the others run without it
            if options.only != "contention":
                run_on("8xA100,96cpu,768Gi", 8, contenders, options, results)
            if options.only != "speed":
                run_on("1xA100,96cpu,768Gi", 1, contenders, options, results)
    finally:  # an interrupted run shows what it has
        show(results)
        if options.json:
            options.json.write_text(json.dumps({"results": [asdict(one) for one in results]}, indent=2))


if __name__ == "__main__":
    main()
