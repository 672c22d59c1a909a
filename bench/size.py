"""What the live scheduler costs beside many nodes, pods and jobs: `python bench/size.py [NODES PODS WAITING RUNNING]`.

The real `KubeCluster` on an API server in memory, so that only the decider is measured. Each figure of the first part
is the best of some tries, in milliseconds of processor time; of a cycle with 50 changes of foreign pods before it the
median and the 99th of a hundred. Then as much as an hour brings happens without pauses: 50
foreign pods a second come or go, each second a job ends and another is submitted, and 1,000 nodes are replaced.

`--rest` measures instead what is written at rest: once all jobs have been told why they wait, a minute in which nothing
changes and one with 50 changes of foreign pods a second, in both of them ten decisions a second, more than a live one
makes. There the jobs wait for whole nodes, so what they are told changes with the pods of others.

`--apply` measures instead 1,500 starts, without and with a pod that may not stand beside others.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kube"))
from small_cluster import MemoryApi, SmallCluster

from headway.cli.wiring import make_policy
from headway.core.plan import Plan
from headway.core.states import State
from headway.kube.api.objects import NodeObject, Pod, TrainingJob
from headway.kube.api.watch import Changed, Deleted, Listed

AIMS = {"idle turn": 1.0, "cycle, p99": 100.0}
CYCLES, STARTS = 200, 1500
HOUR, CHANGES, REPLACED = 3600, 50, 1000
REST_SECONDS, TURNS, MOST_STATUSES = 60, 10, 5.0


def a_node(number: int) -> NodeObject:
    labels = {"kubernetes.io/hostname": f"n{number:05}", "topology.kubernetes.io/zone": f"z{number % 3}"}
    status = {
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    meta = {"name": f"n{number:05}", "uid": f"n{number}", "resourceVersion": "5", "labels": labels}
    return msgspec.convert({"metadata": meta, "status": status}, NodeObject)


def a_pod(uid: str, node: int, version: int) -> Pod:
    meta = {"name": uid, "namespace": "x", "uid": uid, "resourceVersion": str(version), "labels": {"app": "a"}}
    container = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    spec = {"nodeName": f"n{node:05}", "containers": [container]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}, Pod)


def best(do: Callable[[], object], tries: int = 7) -> float:
    found = []
    for _ in range(tries):
        began = time.thread_time()
        do()
        found.append(1000 * (time.thread_time() - began))
    return min(found)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024


def main(nodes: int = 5000, pods: int = 50_000, waiting: int = 10_000, running: int = 200, *, only_rest: bool) -> None:
    logging.disable(logging.CRITICAL)
    api = MemoryApi(nodes=0)
    api.nodes = [a_node(number) for number in range(nodes)]
    foreign = tuple(a_pod(f"f{number}", number % nodes, 6) for number in range(pods))
    for number in range(waiting):
        role = {"replicas": 2, "cpu": 64} if only_rest else {"replicas": 2, "gpu": 64, "cpu": 1}
        api.submit(f"w{number}", {"roles": {"main": role}}, namespace=f"t{number % 20}")
    for number in range(running):
        role = {"replicas": 10, "cpu": "1", "memory": "64Mi"}
        api.submit(f"r{number}", {"roles": {"main": role}}, namespace=f"t{number % 20}")

    def begin() -> None:
        api.inbox.put(Listed(NodeObject, tuple(api.nodes)))
        api.inbox.put(Listed(TrainingJob, tuple(api._job(uid) for uid in api.jobs)))  # noqa: SLF001
        api.inbox.put(Listed(Pod, foreign))

    api.begin = begin  # type: ignore[method-assign]
    before, began = memory(), time.thread_time()
    small = SmallCluster(api, policy=make_policy("headway"))
    cluster = small.cluster
    small.turn()
    print(f"{nodes} nodes, {pods} pods of others, {waiting} jobs that wait, {running} that run")
    print(f"first decision after {time.thread_time() - began:.2f} s of processor time, {memory() - before} MB")
    began = time.thread_time()
    while cluster.intake.to_come or cluster.following.due:
        cluster.turn()
    small.turn(8)
    while cluster.following.due or not cluster.outbox.is_idle:
        cluster.turn()
    print(f"all in after {time.thread_time() - began:.1f} s more; {len(api.pods)} pods run; {memory() - before} MB")
    version = iter(range(10**6, 10**9))
    if only_rest:
        rest(small, nodes, pods, version)
        return
    sent = len(api.sent)

    def comes() -> None:
        at = next(version)
        api.inbox.put(Changed(Pod, a_pod(f"g{at}", at % nodes, at)))
        cluster.turn()

    def goes() -> None:
        at = next(version)
        api.inbox.put(Deleted(Pod, a_pod(f"f{at % pods}", at % nodes, at)))
        cluster.turn()

    rows = {
        "idle turn": best(cluster.turn),
        "a pod of others comes": best(comes, 20),
        "a pod of others goes": best(goes, 20),
        "snapshot": best(lambda: cluster.snapshot(cluster.now())),
    } | cycles(small, nodes, pods, version)
    for what, ms in rows.items():
        aim = f"   {ms / AIMS[what]:.2f} of {AIMS[what]:g} ms" if what in AIMS else ""
        print(f"{what:24} {ms:8.2f} ms{aim}")
    print(f"{len(api.sent) - sent} writes in these turns")
    hour(small, nodes, pods, version)


def cycles(small: SmallCluster, nodes: int, pods: int, version: Iterator[int]) -> dict[str, float]:
    """Milliseconds from the snapshot until the plan is applied, with a second's changes before each."""
    found = []
    for _ in range(CYCLES):
        for _ in range(CHANGES):
            at = next(version)
            pod = a_pod(f"c{at % pods}", at % nodes, at)
            small.api.inbox.put(Deleted(Pod, pod) if at % 2 else Changed(Pod, pod))
        small.cluster.turn()
        began = time.thread_time()
        small.turn()
        found.append(1000 * (time.thread_time() - began))
    found.sort()
    return {"cycle, p50": found[len(found) // 2], "cycle, p99": found[int(0.99 * len(found))]}


def apply() -> None:
    """As many starts at once as there are nodes, without and with one pod that shuns those of a label anywhere."""
    for shuns in (False, True):
        api = MemoryApi(nodes=0)
        api.nodes = [a_node(number) for number in range(STARTS)]
        if shuns:
            term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
            affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            found = msgspec.to_builtins(a_pod("shuns", 0, 6))
            found["spec"]["affinity"] = affinity
            api.pods["x/shuns"] = found
        for number in range(STARTS):
            api.submit(f"w{number}", {"roles": {"main": {"gpu": 8}}}, namespace=f"t{number % 20}")
        small, took, applied = SmallCluster(api, policy=make_policy("headway")), [], 0
        inner = small.cluster.apply

        def timed(plan: Plan, inner: Callable[[Plan], None] = inner, took: list[float] = took) -> None:
            began = time.thread_time()
            inner(plan)
            took.append(time.thread_time() - began)

        small.cluster.apply = timed  # type: ignore[method-assign]
        while applied < STARTS and len(took) < 100:
            applied = sum(gang.state is not State.WAITING for gang in small.cluster.gangs.values())
            small.turn()
        print(f"{STARTS} starts applied, {'one pod shuns others' if shuns else 'no pod minds'}: {sum(took):.2f} s")


def rest(small: SmallCluster, nodes: int, pods: int, version: Iterator[int]) -> None:
    """What is written for gangs of which none starts or ends.

    All pods but one of a node go and come: the largest room of all nodes, which every job is told, is always another,
    and why it waits is not. Then all of them: one node has room for a replica now and then, so that why is another too.
    """
    api, turns = small.api, 0
    while any(not status.get("reason") for uid in api.jobs if (status := api.status(uid)).get("phase") != "Running"):
        turns += 1
        small.turn()
    print(f"all jobs that wait have been told why after {turns} decisions more")
    for changes, kept in ((0, 0), (CHANGES, 1), (CHANGES, 0)):
        api.sent.clear()
        began, made, late = time.monotonic(), 0, 0.0
        for number in range(1, REST_SECONDS * TURNS + 1):
            while made < changes * number / TURNS:
                made, at = made + 1, next(version)
                turn, one = divmod(made, max(1, pods // nodes - kept))
                pod = a_pod(f"f{(one + kept) * nodes}", 0, at)
                api.inbox.put(Changed(Pod, pod) if turn % 2 else Deleted(Pod, pod))
            small.turn()
            ahead = began + number / TURNS - time.monotonic()
            late = max(late, -ahead)
            time.sleep(max(0.0, ahead))
        took = time.monotonic() - began
        sent = Counter(type(write.what).__name__ for write in api.sent)
        statuses = sent.pop("StatusPatch", 0) / took
        print(
            f"{changes:2} changes a second, {kept} pods stay: {statuses:.2f} statuses a second"
            f" ({statuses / MOST_STATUSES:.2f} of {MOST_STATUSES:g}), {sent.total() / took:.2f} other writes,"
            f" {late:.1f} s late at most"
        )


def hour(small: SmallCluster, nodes: int, pods: int, version: Iterator[int]) -> None:
    """Names of jobs, pods and nodes are never used again, so whatever is kept of them would add up."""
    api, cycles, held = small.api, [], {}
    gone, fresh = iter(range(10**9)), iter(range(10**6, 10**9))
    print(f"an hour: {HOUR * CHANGES} changes of foreign pods, {HOUR} jobs, {REPLACED} nodes replaced")
    for second in range(HOUR + 1):
        if second % 600 == 0:
            gc.collect()
            rows = len(small.cluster.gangs), len(small.cluster.board.nodes)
            print(f"  {second // 60:3} min: {memory()} MB, {rows[0]} gangs, {rows[1]} nodes")
        for _ in range(CHANGES // 2):
            at = next(version)
            api.inbox.put(Changed(Pod, a_pod(f"h{at}", at % nodes, at)))
            held[at] = a_pod(f"h{at}", at % nodes, at)
            if len(held) > pods // 10:
                api.inbox.put(Deleted(Pod, held.pop(next(iter(held)))))
            else:
                old = next(gone)
                api.inbox.put(Deleted(Pod, a_pod(f"f{old}", old % nodes, at)))
        job = f"s{next(fresh)}"
        api.submit(job, {"roles": {"main": {"cpu": "1", "memory": "64Mi"}}}, namespace=f"t{second % 20}")
        _end_one(api)
        if second % 2 == 0 and second // 2 < REPLACED:
            api.inbox.put(Deleted(NodeObject, a_node(nodes - 1 - second // 2)))
            api.inbox.put(Changed(NodeObject, a_node(nodes + second // 2)))
        began = time.thread_time()
        small.turn()
        cycles.append(1000 * (time.thread_time() - began))
        api.sent.clear()
        api.events.clear()
    for what, some in (("while nodes are replaced", cycles[: 2 * REPLACED]), ("after that", cycles[2 * REPLACED :])):
        some.sort()
        p50, p99 = some[len(some) // 2], some[int(0.99 * len(some))]
        print(f"a second's changes and a cycle, {what}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {some[-1]:.0f} ms")


def _end_one(api: MemoryApi) -> None:
    """The pod of the oldest job of one replica succeeds; a job that is told so is deleted by its user."""
    ended = [uid for uid in list(api.jobs)[-200:] if api.status(uid).get("phase") == "Succeeded"]
    for uid in ended:
        job = api._job(uid)  # noqa: SLF001
        del api.jobs[uid]
        api.inbox.put(Deleted(TrainingJob, job))
        name = f"{job.metadata.namespace}/{job.metadata.name}-"
        for key in [key for key in list(api.pods)[-400:] if key.startswith(name)]:
            api.inbox.put(Deleted(Pod, msgspec.convert(api.pods.pop(key), Pod)))
    for pod in list(api.pods.values())[-50:]:
        if pod["metadata"]["name"].startswith("s") and pod["status"]["phase"] == "Running":
            pod["status"] = {"phase": "Succeeded"}
            api.tell(pod)
            return


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if one != "--rest"]
    if "--apply" in given:
        logging.disable(logging.CRITICAL)
        apply()
    else:
        main(*(int(one) for one in given), only_rest="--rest" in sys.argv)
