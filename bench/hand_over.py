"""A leader stops at one of its writes, before the API server sees it or after, and another takes over: is all well?

    python bench/hand_over.py [--rounds 100] [--seed 1]

Each round is two schedulers and a namespace of their own. The leader is frozen or killed at a binding, a deletion, a
creation or a status. What it had sent arrives when the other leads; a frozen one then goes on. In every fifth round it
ends in order instead, while a job waits for room in a quota. It prints how long hand-overs took, and what must be 0.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedule_process import JOBS, phases, prepared, started
from stop_points import HOW, KINDS, WHEN, StopPoint, kubeconfig, over_booked

from headway.lab import Lab
from headway.lab.node_shapes import NodeGroup

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "any"}], "terminationGracePeriodSeconds": 0}}
OPTIONS = ("--policy", "first-fit", "--measure", "off")
WAIT_SECONDS = 120.0
SETTLES_SECONDS = 3.0
AIM = {"ends": 3.0, "stops": 15.0}
"""Seconds that a hand-over may take: from a leader that ends in order, and from one that stops."""


def until(what: str, holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


@dataclass
class Round:
    lab: Lab
    namespace: str
    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def scheduler(self, name: str, *options: str) -> tuple[subprocess.Popen[bytes], Path]:
        (self.folder / name).mkdir()
        process, said = started(self.lab, self.namespace, self.folder / name, TEMPLATE, *OPTIONS, *options)
        self.running.append(process)
        return process, said

    def submit(self, name: str, replicas: int) -> None:
        role = {"replicas": replicas, "min": replicas, "max": replicas, "cpu": "1", "gpu": 1, "memory": "1Gi"}
        body = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
        self.lab.api.post(JOBS.format(self.namespace), {**body, "spec": {"roles": {"worker": role}}})

    def phase(self, name: str) -> str:
        return str(phases(self.lab, self.namespace).get(name, {}).get("phase", ""))

    def pods(self, name: str) -> dict[str, bool]:
        """By uid of each pod that lives: whether it runs."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=headway.dev/job={name}"
        return {
            one["metadata"]["uid"]: one["status"].get("phase") == "Running"
            for one in self.lab.api.get(path)["items"]
            if "deletionTimestamp" not in one["metadata"]
        }

    def hold(self, what: str, holds: bool) -> None:
        if not holds:
            self.wrong.append(what)

    def begin(self, *options: str) -> tuple[subprocess.Popen[bytes], Path, set[str]]:
        """The leader, what the standby says, and the pods of a job that must not notice anything."""
        first, said = self.scheduler("first", *options)
        until("the first leads", lambda: "scheduling with policy" in said.read_text())
        _, other = self.scheduler("second", "--standby")
        self.submit("old", 8)
        until("the old job runs", lambda: self.phase("old") == "Running")
        until("the other stands by", lambda: "standing by: " in other.read_text())
        return first, other, set(self.pods("old"))

    def fill(self) -> None:
        """A job waits because the namespace's quota is used up: the leader tries its pods again every 30 seconds."""
        quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "8"}}}
        self.lab.api.post(f"/api/v1/namespaces/{self.namespace}/resourcequotas", quota)
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas/full"
        until("the quota is full", lambda: self.lab.api.get(path).get("status", {}).get("used", {}).get("pods") == "8")
        self.submit("more", 1)
        until("it is told", lambda: phases(self.lab, self.namespace).get("more", {}).get("reason"))

    def ends(self) -> float:
        first, other, before = self.begin()
        self.fill()
        began = time.monotonic()
        first.terminate()
        until("the other leads", lambda: "scheduling with policy" in other.read_text())
        took = time.monotonic() - began
        self.hold("it ends with an error", first.wait(30) == 0)
        time.sleep(SETTLES_SECONDS)
        self.hold("training pods were touched", set(self.pods("old")) == before)
        return took

    def stops(self, kind: str, when: str, how: str) -> float:
        point = StopPoint(self.lab, kind, when, how)
        with point.served():
            first, other, before = self.begin("--kubeconfig", str(kubeconfig(self.lab, point.port, self.folder)))
            changed, replicas = "new", 8
            if kind == "delete":
                self.submit(changed, replicas)
                until("the new job runs", lambda: self.phase(changed) == "Running")
            point.arm(first.pid)
            if kind == "delete":
                self.lab.api.patch(f"{JOBS.format(self.namespace)}/{changed}", {"spec": {"suspend": True}})
            else:
                self.submit(changed, replicas)
            until(f"a {kind}", point.stopped.is_set)
            began = time.monotonic()
            until("the other leads", lambda: "scheduling with policy" in other.read_text())
            took = time.monotonic() - began
            point.go_on()
            until("what was stopped arrives", point.passed.is_set)
            if how == "frozen":
                first.send_signal(signal.SIGCONT)
                self.hold("the old leader goes on", first.wait(30) != 0)
            if kind == "delete":
                until("it is suspended", lambda: self.phase(changed) == "Suspended" and not self.pods(changed))
                self.lab.api.patch(f"{JOBS.format(self.namespace)}/{changed}", {"spec": {"suspend": False}})
            until("the new job runs", lambda: self.phase(changed) == "Running")
            here = set(self.pods(changed))
            time.sleep(SETTLES_SECONDS)
            pods = self.pods(changed)
            self.hold("the gang is not whole", len(pods) == replicas and all(pods.values()))
            self.hold("pods of the new gang were deleted", set(pods) == here)
            self.hold("training pods were touched", set(self.pods("old")) == before)
            everywhere = self.lab.api.get("/api/v1/pods")["items"], self.lab.api.get("/api/v1/nodes")["items"]
            self.hold("a node is booked twice", not over_booked(*everywhere))
        return took

    def clear(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        for name in phases(self.lab, self.namespace):
            self.lab.api.delete(f"{JOBS.format(self.namespace)}/{name}")
        until("it is empty", lambda: not self.lab.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    ways = list(itertools.product(KINDS, WHEN, HOW))
    random.Random(chosen.seed).shuffle(ways)
    stops, took, bad = itertools.cycle(ways), collections.defaultdict[str, list[float]](list), 0
    with prepared("hand-over", simulated=[NodeGroup(4, 8, "", 32, "128Gi")]) as (lab, folder):
        for number in range(1, chosen.rounds + 1):
            namespace = f"round-{number}"
            lab.create_namespace(namespace)
            (folder / namespace).mkdir()
            run, words = Round(lab, namespace, folder / namespace), ("in order",)
            try:
                if number % 5 == 0:
                    seconds = run.ends()
                else:
                    words = next(stops)
                    seconds = run.stops(*words)
                took["ends" if number % 5 == 0 else words[-1]].append(seconds)
            except TimeoutError as error:
                run.wrong.append(f"not within {WAIT_SECONDS:g} s: {error}")
                seconds = float("nan")
            finally:
                run.clear()
            bad += bool(run.wrong)
            print(f"{number:3} {' '.join(words):24} {seconds:5.1f} s  {'; '.join(run.wrong) or 'well'}", flush=True)
    late = 0
    for how, seconds_of in took.items():
        aim = AIM["ends" if how == "ends" else "stops"]
        late += sum(one > aim for one in seconds_of)
        print(f"{how}: {len(seconds_of)}, {statistics.median(seconds_of):.1f} s, {max(seconds_of):.1f} at most")
    print(f"must be 0: {bad} rounds that were not well, {late} hand-overs that took too long {AIM}")
    raise SystemExit(bool(bad or late))


if __name__ == "__main__":
    main()
