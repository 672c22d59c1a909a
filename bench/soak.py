"""Two schedulers under churn, for hours: is a job lost, a gang half, a training pod deleted, does memory grow?

    python bench/soak.py [--minutes 120] [--every 60] [--seed 1]

Gangs arrive on simulated nodes without end. Once a minute, in turn: pods fail, a node is drained, the API server starts
anew, and the leader ends in order, is killed, or stands still for 20 seconds and goes on. So each process leads for
some minutes. Its memory is judged after a warm-up: the second half of its time against the first; and later leaders
against earlier ones, because what each hands on may grow, too. The policy stops no job: a training pod that goes,
though nothing happened to its job, is one too many.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import random
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from schedule_process import phases, prepared, started

from headway.lab import Lab
from headway.lab.api import LabApiError
from headway.lab.node_shapes import NodeGroup

NAMESPACE = "soak"
NODES, GPUS = 40, 8
FLOOR = 60
"""Jobs that are open at any moment."""
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "any"}], "terminationGracePeriodSeconds": 0}}
OVER = ("Succeeded", "Failed", "Cancelled")
HALF_BOUND = 30.0
"""Seconds after which a gang that is half bound counts as half."""
FROZEN = 20.0
TOLD = 90.0
"""Seconds within which an event must say what happened to a job."""
GROWTH = 0.03
"""Of a leader's memory from half to half, and of leaders from third to third of the run: more is not flat."""
WARM, LED = 60.0, 150.0
"""Seconds of a leader that are not judged, and that it must have led to be judged at all."""


def resident(process: subprocess.Popen[bytes]) -> float:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / (1 << 20)


@dataclass
class Soak:
    lab: Lab
    folder: Path
    rng: random.Random
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The leader first."""
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    submitted: set[str] = field(default_factory=set)
    ended: collections.Counter[str] = field(default_factory=collections.Counter)
    sizes: dict[str, int] = field(default_factory=dict)
    half_since: dict[str, float] = field(default_factory=dict)
    longest_half: float = 0.0
    hand_overs: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    memory: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: collections.defaultdict(list))
    """Of each process while it led, by its id: when, and how much."""
    training: dict[str, str] = field(default_factory=dict)
    """By uid of a pod that trains: its job."""
    disturbed: dict[str, float] = field(default_factory=dict)
    """When something happened to a job that an event must tell."""
    touched: set[str] = field(default_factory=set)
    """Jobs to which something has ever happened."""
    deleted: int = 0
    untold: int = 0
    lost: int = 0
    crashed: int = 0

    # ── who schedules ──

    def add(self) -> subprocess.Popen[bytes]:
        folder = self.folder / f"scheduler-{next(self.numbers)}"
        folder.mkdir()
        options = ("--standby", "--measure", "off", "--policy", "first-fit")
        process, _ = started(self.lab, NAMESPACE, folder, TEMPLATE, *options)
        self.running.append(process)
        return process

    def epoch(self) -> int:
        lease = f"/apis/coordination.k8s.io/v1/namespaces/headway-system/leases/headway-{NAMESPACE}"
        try:
            return int(self.lab.api.get(lease)["metadata"]["annotations"]["headway.dev/epoch"])
        except (LabApiError, OSError, KeyError):
            return 0

    def in_order(self) -> None:
        """The leader first. One that lost its Lease while the API server was away has ended, and is started anew."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/headway-system/leases/headway-{NAMESPACE}"
        holder = self.lab.api.get(lease)["spec"].get("holderIdentity", "").rpartition("/")[2].partition("-")[0]
        for process in [one for one in self.running if one.poll() is not None]:
            self.running.remove(process)
            self.hand_overs["lost its Lease"].append(0.0)
            self.add()
        self.running.sort(key=lambda one: str(one.pid) != holder)

    def replaced(self, how: str) -> None:
        """The leader goes; counts until the other one leads."""
        old, before, began = self.running.pop(0), self.epoch(), time.monotonic()
        old.send_signal({"ends": signal.SIGTERM, "killed": signal.SIGKILL, "stands still": signal.SIGSTOP}[how])
        while self.epoch() <= before:
            if time.monotonic() - began > 60.0:
                raise SystemExit(f"soak: nobody took over from a leader that {how}\n{self.last_words()}")
            time.sleep(0.1)
        self.hand_overs[how].append(time.monotonic() - began)
        if how == "stands still":
            time.sleep(max(0.0, FROZEN - (time.monotonic() - began)))
            old.send_signal(signal.SIGCONT)
        code = old.wait(30)
        self.crashed += how == "ends" and code != 0
        self.add()

    def last_words(self) -> str:
        """Of those that run, and of the one that went."""
        newest = sorted(self.folder.glob("scheduler-*/said"), key=lambda file: file.stat().st_mtime)[-3:]
        return "\n".join(f"{file}: {file.read_text()[-3000:]}" for file in newest)

    # ── what else happens ──

    def drain(self) -> None:
        node = f"sim-{self.rng.randrange(1, NODES + 1):05}"
        self.lab.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        for pod in self.pods():
            if pod["spec"].get("nodeName") == node:
                self.disturb(pod)
                self.lab.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
        time.sleep(5.0)
        self.lab.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})

    def pods_fail(self) -> None:
        there = [pod for pod in self.pods() if pod["status"].get("phase") == "Running"]
        for pod in self.rng.sample(there, min(5, len(there))):
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/status"
            ended = {"name": "main", "image": "any", "imageID": "", "ready": False, "restartCount": 0,
                     "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}  # fmt: skip
            self.disturb(pod)
            self.lab.api.patch(path, {"status": {"phase": "Failed", "containerStatuses": [ended]}})

    def disturb(self, pod: dict[str, Any]) -> None:
        job = pod["metadata"]["labels"]["headway.dev/job"]
        if pod["status"].get("phase") == "Running":
            self.disturbed.setdefault(job, time.time())
        self.touched.add(job)

    def server_restarts(self) -> None:
        self.lab.restart("kube-apiserver")

    # ── what is seen ──

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lab.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return found

    def look(self) -> None:
        now = phases(self.lab, NAMESPACE)
        self.lost += len(self.submitted - now.keys())
        self.in_order()
        self.look_at_training(now)
        self.look_at_events(now)
        self.memory[self.running[0].pid].append((time.monotonic(), resident(self.running[0])))
        for name, status in now.items():
            if status.get("phase") in OVER:
                self.ended[status["phase"]] += 1
                self.submitted.discard(name)
                self.lab.api.delete(f"/apis/headway.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs/{name}")
        for _ in range(FLOOR - len(self.submitted)):
            self.submit()
        self.look_at_gangs()

    def look_at_training(self, now: dict[str, dict[str, Any]]) -> None:
        """A training pod goes with its job's end, or because something happened to one of its gang."""
        here = {pod["metadata"]["uid"]: pod["metadata"]["labels"]["headway.dev/job"] for pod in self.pods()
                if pod["status"].get("phase") in ("Running", "Succeeded")}  # fmt: skip
        for uid, job in self.training.items():
            if uid not in here and job not in self.touched and now.get(job, {}).get("phase", "Succeeded") not in OVER:
                status = now.get(job, {})
                if self.phase_now(job) not in OVER:
                    print(
                        f"a training pod of {job} is gone: {status.get('phase')}, {status.get('message')}", flush=True
                    )
                    self.deleted += 1
        self.training = {uid: job for uid, job in here.items() if job in now}

    def phase_now(self, job: str) -> str:
        path = f"/apis/headway.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs/{job}"
        return str(self.lab.api.get(path).get("status", {}).get("phase", ""))

    def look_at_events(self, now: dict[str, dict[str, Any]]) -> None:
        for job, since in list(self.disturbed.items()):
            if job not in now:  # it ended at the same moment
                del self.disturbed[job]
                continue
            if self.is_told(job, since):
                del self.disturbed[job]
            elif time.time() - since > TOLD:
                print(f"nothing says what happened to {job}: {now[job]}", flush=True)
                del self.disturbed[job]
                self.untold += 1

    def is_told(self, job: str, since: float) -> bool:
        found = self.lab.api.get(f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name={job}")
        told = [one.get("lastTimestamp") or one.get("eventTime") or "" for one in found["items"]]
        return any(datetime.fromisoformat(at).timestamp() >= since - 1.0 for at in told if at)

    def submit(self) -> None:
        name, size = f"j{next(self.numbers):06}", self.rng.choice((1, 1, 2, 4, 8, 16))
        seconds = f"{self.rng.choice((10, 20, 60, 180))}s"
        meta = {"metadata": {"annotations": {"headway.dev/lab-run-for": seconds}}}
        role = {"replicas": size, "min": size, "max": size, "cpu": "1", "gpu": 1, "memory": "1Gi"}
        body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
                "spec": {"roles": {"worker": role}, "template": meta}}  # fmt: skip
        self.lab.api.post(f"/apis/headway.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs", body)
        self.submitted.add(name)
        self.sizes[name] = size

    def look_at_gangs(self) -> None:
        now, bound = time.monotonic(), collections.Counter[str]()
        for pod in self.pods():
            if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running":
                bound[pod["metadata"]["labels"]["headway.dev/job"]] += 1
        for name in list(self.half_since):
            if bound[name] in (0, self.sizes.get(name, 0)):
                del self.half_since[name]
        for name, count in bound.items():
            if 0 < count < self.sizes.get(name, 0):
                since = self.half_since.setdefault(name, now)
                self.longest_half = max(self.longest_half, now - since)


def growth(memory: list[list[tuple[float, float]]]) -> tuple[float, float] | None:
    """By how much a leader's memory grew from the first half of its time to the second, and that of leaders from the
    middle third of the run to the last. None where too few have led for long.
    """
    halves = []
    for led in (one for one in memory if one[-1][0] - one[0][0] >= LED):
        warm = [amount for at, amount in led if at - led[0][0] >= WARM]
        middle = len(warm) // 2
        halves.append((statistics.median(warm[:middle]), statistics.median(warm[middle:])))
    if len(halves) < 3:
        return None
    ends, third = [last for _, last in halves], len(halves) // 3
    within = statistics.median(last / first for first, last in halves)
    return within - 1.0, statistics.median(ends[-third:]) / statistics.median(ends[third:-third]) - 1.0


def faults(folder: Path) -> list[str]:
    """Lines of errors that no event of this run explains, with what is said after them."""
    text = "\n".join(file.read_text() for file in folder.glob("scheduler-*/said"))
    return re.findall(r"^.*(?:Traceback|could not go on with|Fault)(?:.*\n){1,40}", text, re.MULTILINE)


def soak(run: Soak, minutes: float, every: float) -> None:
    others: list[tuple[str, Callable[[], None]]] = [
        ("pods fail", run.pods_fail),
        ("drain", run.drain),
        ("API server", run.server_restarts),
    ]
    leaders: list[tuple[str, Callable[[], None]]] = [
        (how, partial(run.replaced, how)) for how in ("ends", "killed", "stands still")
    ]
    happenings = itertools.cycle([one for leader in leaders for one in (*others, leader)])
    run.add()
    while not run.epoch():
        time.sleep(0.2)
    run.add()
    began, then = time.monotonic(), time.monotonic() + every
    while time.monotonic() - began < 60.0 * minutes:
        try:
            run.look()
            if time.monotonic() >= then:
                then = time.monotonic() + every
                what, do = next(happenings)
                do()
                memory = " ".join(f"{resident(one):.0f}" for one in run.running)
                print(
                    f"{(time.monotonic() - began) / 60:5.1f} min  {what:13} {dict(run.ended)}  {memory} MiB", flush=True
                )
        except (LabApiError, OSError) as error:
            print(f"the API server does not answer: {error}", flush=True)
        time.sleep(2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two happenings")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with prepared("soak", simulated=[NodeGroup(NODES, GPUS, "", 32, "128Gi")]) as (lab, folder):
        lab.create_namespace(NAMESPACE)
        run = Soak(lab, folder, random.Random(chosen.seed))
        try:
            soak(run, chosen.minutes, chosen.every)
        finally:
            for process in run.running:
                process.kill()
        for how, took in run.hand_overs.items():
            print(
                f"a leader that {how}: {len(took)} hand-overs, {statistics.median(took):.1f} s, {max(took):.1f} at most"
            )
        print(f"jobs ended: {dict(run.ended)}; a gang was half bound for {run.longest_half:.1f} s at most")
        grown = growth([*run.memory.values()])
        if grown is None:
            print("memory: too few leaders led for long")
        else:
            print(f"memory: {grown[0]:+.1%} while a leader leads, {grown[1]:+.1%} from the middle leaders to the last")
        found = faults(folder)
        for words in found[:3]:
            print(words)
        bad = {"jobs lost": run.lost, "half gangs": int(run.longest_half > HALF_BOUND), "crashes": run.crashed,
               "faults": len(found), "training pods deleted": run.deleted, "untold": run.untold,
               "memory grows": int(grown is not None and max(grown) > GROWTH)}  # fmt: skip
        print(f"must be 0: {bad}")
        raise SystemExit(any(bad.values()))


if __name__ == "__main__":
    main()
