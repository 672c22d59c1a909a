"""The API server and etcd fail under load: is anything lost, and how soon is it noticed?

    python bench/api_faults.py [--jobs 240] [--replicas 2] [--away 600] [--route]

It starts a lab with simulated nodes and `headway schedule`. Jobs of two pods come all the time, each runs for ten
seconds. Meanwhile the API server is killed and, `--away` seconds later, started again, then etcd is; the API server is
halted, so that its connections stay open and nothing comes; at the end etcd's folder is replaced by an earlier copy. It
prints how long until pods are bound again, and fails if a job that the API server has is not Succeeded at the end, if
one had to start again because of the first three faults, or if a pod is left. Headway itself is never started again; of
several replicas, one that loses its Lease ends and is started again, as a kubelet does it.

`--route` measures something else, as root: a fake server in a network namespace whose way back to us is cut. It prints
how long until the watch notices.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from objects import JOBS, Scheduler

from headway.kube.api.access import Access
from headway.kube.api.client import Client
from headway.kube.api.objects import NodeObject
from headway.kube.api.watch import Follower, WatchFailed
from headway.lab import Lab
from headway.lab.errors import LabError
from headway.lab.node_shapes import node_groups

NAMESPACE = "load"
SPEC = {
    "roles": {"worker": {"replicas": 2, "cpu": "500m"}},
    "template": {"metadata": {"annotations": {"headway.dev/lab-run-for": "10s"}}},
}
EVERY_SECONDS = 0.25
NOTICED_SECONDS = 90.0
END_SECONDS = 180.0
SPACE, LINK, HOST, GUEST = "hw-faults", "hw-faults0", "10.254.77.1", "10.254.77.2"


class Load(threading.Thread):
    """Submits jobs until it is stopped; those that the server refuses or does not answer are tried again."""

    def __init__(self, lab: Lab, jobs: int) -> None:
        super().__init__(daemon=True)
        self.lab, self.left, self.sent = lab, jobs, 0
        self.running = threading.Event()
        self.running.set()

    def run(self) -> None:
        while self.left:
            self.running.wait()
            meta = {"name": f"j{self.sent}"}
            body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": meta, "spec": SPEC}
            try:
                self.lab.api.post(JOBS.format(NAMESPACE), body)
            except (LabError, OSError, http.client.HTTPException) as error:
                if "already exists" not in str(error):
                    time.sleep(0.2)
                    continue
            self.left, self.sent = self.left - 1, self.sent + 1
            time.sleep(EVERY_SECONDS)


class Replicas(threading.Thread):
    """Schedulers of which one leads. One that has ended is started again."""

    def __init__(self, lab: Lab, folder: Path, number: int) -> None:
        super().__init__(daemon=True)
        self.all, self.over = list[Scheduler](), threading.Event()
        for one in range(number):
            own = folder / f"replica-{one}"
            own.mkdir()
            self.all.append(Scheduler(lab, own, *(["--standby"] if number > 1 else [])))
            self.all[-1].start()
        self.restarts = 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(1.0):
            for one in self.all if len(self.all) > 1 else ():
                if one.process.poll() is not None:
                    self.restarts += 1
                    one.start()

    def words(self) -> str:
        return "".join(one.words() for one in self.all)

    def stop(self) -> None:
        self.over.set()
        self.join()
        for one in self.all:
            one.threads()
            one.stop()


def bound_after(lab: Lab, moment: float) -> float:
    """Seconds from this moment until a pod is bound that did not exist then."""
    began = datetime.fromtimestamp(moment, UTC).isoformat()[:19]
    while time.time() - moment < END_SECONDS:
        try:
            pods = lab.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        except (LabError, OSError, http.client.HTTPException):
            pods = []
        if any(pod["metadata"]["creationTimestamp"] > began and pod["spec"].get("nodeName") for pod in pods):
            return time.time() - moment
        time.sleep(0.1)
    raise SystemExit(f"no pod was bound within {END_SECONDS:.0f} s")


def jobs_of(lab: Lab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.api.get(JOBS.format(NAMESPACE))["items"]
    return found


def ended(lab: Lab) -> list[dict[str, Any]]:
    """All jobs, once all have succeeded or it takes too long."""
    give_up = time.monotonic() + END_SECONDS
    while True:
        jobs = jobs_of(lab)
        if time.monotonic() > give_up or all(job.get("status", {}).get("phase") == "Succeeded" for job in jobs):
            return jobs
        time.sleep(1)


def halted(lab: Lab, scheduler: Replicas) -> float:
    """Seconds until all watches notice that the API server, whose connections stay open, says nothing."""
    process = next(part.pid for part in lab.status().parts if part.name == "kube-apiserver")
    assert process is not None
    before = scheduler.words().count("fails, trying again")
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    try:
        while time.monotonic() - began < 2 * NOTICED_SECONDS:
            if scheduler.words().count("fails, trying again") - before >= 5 * len(scheduler.all):
                return time.monotonic() - began
            time.sleep(0.2)
    finally:
        os.kill(process, signal.SIGCONT)
    return time.monotonic() - began


def restore(lab: Lab, copy: Path) -> None:
    """As an administrator does it: all of Kubernetes is started again, Headway is not."""
    for part in ("kube-apiserver", "etcd"):
        lab.kill(part)
    shutil.rmtree(lab.folder / "etcd")
    shutil.copytree(copy, lab.folder / "etcd")
    lab.start("etcd")
    for part in ("kube-apiserver", "kube-controller-manager", "kwok"):
        lab.restart(part)


def faults(lab: Lab, scheduler: Replicas, load: Load, folder: Path, away: float) -> list[str]:
    wrong = []
    time.sleep(8)
    lab.kill("kube-apiserver")
    time.sleep(away)
    lab.restart("kube-apiserver")
    again = bound_after(lab, time.time())
    print(f"API server killed, away for {away:.0f} s: pods are bound again {again:.1f} s after it is back", flush=True)
    lab.kill("etcd")
    shutil.copytree(lab.folder / "etcd", folder / "copy")
    copied = load.sent
    lab.restart("etcd")
    print(f"etcd killed: pods are bound again {bound_after(lab, time.time()):.1f} s after it is back", flush=True)
    load.running.clear()
    seconds = halted(lab, scheduler)
    load.running.set()
    print(f"API server halted: noticed after {seconds:.0f} s by all watches", flush=True)
    wrong += ["the halted API server was noticed too late"] if seconds > NOTICED_SECONDS else []
    print(f"it goes on: pods are bound again after {bound_after(lab, time.time()):.1f} s", flush=True)
    load.join()
    jobs = ended(lab)
    wrong += check(jobs, "after three faults", sent=load.sent)
    wrong += [f"{job['metadata']['name']} had to start again" for job in jobs if job["status"].get("attempt")]
    restore(lab, folder / "copy")
    print(f"etcd's folder replaced by a copy from when {copied} of {load.sent} jobs were there", flush=True)
    time.sleep(5)
    wrong += check(ended(lab), "after the restore")
    return wrong


def check(jobs: list[dict[str, Any]], when: str, sent: int | None = None) -> list[str]:
    phases = [job.get("status", {}).get("phase", "") for job in jobs]
    print(f"{when}: {phases.count('Succeeded')} of {len(jobs)} jobs succeeded", flush=True)
    lost = [] if sent is None or sent == len(jobs) else [f"{sent} jobs were sent, {len(jobs)} are there"]
    names = [job["metadata"]["name"] for job in jobs if job.get("status", {}).get("phase") != "Succeeded"]
    return [*lost, *(f"{name} has not succeeded {when}" for name in names)]


def left(lab: Lab) -> list[str]:
    pods = lab.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return [
        f"pod {pod['metadata']['name']} is left" for pod in pods if pod["status"]["phase"] in ("Pending", "Running")
    ]


def under_load(jobs: int, replicas: int, away: float) -> int:
    lab = Lab.up(f"faults-{os.getpid()}", simulated=node_groups(20, ["8cpu,32Gi"]), owned=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        try:
            subprocess.run(
                [sys.executable, "-m", "headway", "schedule", "--install", "--kubeconfig", lab.kubeconfig], check=True
            )
            lab.create_namespace(NAMESPACE)
            scheduler, load = Replicas(lab, folder, replicas), Load(lab, jobs)
            load.start()
            wrong = faults(lab, scheduler, load, folder, away)
            wrong += left(lab)
            scheduler.stop()
            if replicas > 1:
                print(f"replicas that ended and were started again: {scheduler.restarts}")
        finally:
            lab.down()
    for sentence in wrong[:20]:
        print("WRONG:", sentence)
    return 1 if wrong else 0


# ── a route that is cut ──


def run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


async def noticed(port: int) -> float:
    """Seconds until a watch notices that its server cannot reach us any more."""
    failed, listed = asyncio.Event(), asyncio.Event()

    def tell(news: Any) -> None:
        (failed if isinstance(news, WatchFailed) else listed).set()

    async with Client(Access(url=f"http://{GUEST}:{port}", tls=None)) as client:
        task = asyncio.create_task(Follower(client, "/nodes", NodeObject, tell).follow())
        await asyncio.wait_for(listed.wait(), 10)
        await asyncio.sleep(3)
        run_ip("-n", SPACE, "route", "replace", "blackhole", HOST)
        began = time.monotonic()
        await asyncio.wait_for(failed.wait(), 200)
        task.cancel()
        return time.monotonic() - began


def serve(port: int) -> None:
    """Lists nothing, and watches with a bookmark each second."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}\n')
            await asyncio.sleep(1)

    app = web.Application()
    app.router.add_get("/nodes", answer)
    web.run_app(app, host=GUEST, port=port, print=None)


def cut_route(port: int = 8099) -> int:
    run_ip("netns", "add", SPACE)
    try:
        run_ip("link", "add", LINK, "type", "veth", "peer", "name", "inside", "netns", SPACE)
        run_ip("addr", "add", f"{HOST}/30", "dev", LINK)
        run_ip("link", "set", LINK, "up")
        run_ip("-n", SPACE, "addr", "add", f"{GUEST}/30", "dev", "inside")
        run_ip("-n", SPACE, "link", "set", "inside", "up")
        server = subprocess.Popen(["ip", "netns", "exec", SPACE, sys.executable, __file__, "--serve", str(port)])
        try:
            time.sleep(2)
            seconds = asyncio.run(noticed(port))
        finally:
            server.kill()
            server.wait()
    finally:
        run_ip("netns", "del", SPACE)
    print(f"the route back is cut: noticed after {seconds:.0f} s")
    return 1 if seconds > NOTICED_SECONDS else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--jobs", type=int, default=240)
    options.add_argument("--replicas", type=int, default=1)
    options.add_argument("--away", type=float, default=2.0)
    options.add_argument("--route", action="store_true")
    options.add_argument("--serve", type=int, default=0, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        serve(given.serve)
        return 0
    return cut_route() if given.route else under_load(given.jobs, given.replicas, given.away)


if __name__ == "__main__":
    sys.exit(main())
