"""Gangs beside native pods that come and go on the same real kubelets: is a gang ever left half, does a job fail?

    python bench/churn.py [--seconds 120] [--kubelets 2] [--gangs 24]

The native scheduler starts a short pod as soon as one has ended; Headway starts gangs (a `ps`, workers after it) on the
same nodes. It prints how many pods kubelets turned away, how long a gang was half bound at most, and how jobs ended.
"""

from __future__ import annotations

import argparse
import collections
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedule_process import phases, prepared, started, submit

from headway.lab import Lab

START_SECONDS = 60.0
"""The stated bound: a gang that is not whole by then is released."""
SIZES = (2, 3, 4)


@dataclass
class Churn:
    """Native pods: so many at once, each for a few seconds."""

    lab: Lab
    template: dict[str, Any]
    at_once: int
    rng: random.Random
    made: int = 0
    turned_away: int = 0
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        pods = "/api/v1/namespaces/native/pods"
        while not self.ending.is_set():
            alive = 0
            for pod in self.lab.api.get(pods)["items"]:
                if pod["status"].get("phase") in ("Succeeded", "Failed"):
                    self.turned_away += pod["status"].get("reason", "").startswith("OutOf")
                    self.lab.api.delete(f"{pods}/{pod['metadata']['name']}?gracePeriodSeconds=0")
                else:
                    alive += 1
            for _ in range(self.at_once - alive):
                self.lab.api.post(pods, self._pod())
            self.ending.wait(0.1)

    def _pod(self) -> dict[str, Any]:
        self.made += 1
        cpu = f"{self.rng.choice((200, 300, 500))}m"
        image = self.template["spec"]["containers"][0]["image"]
        sleep = ["sleep", str(self.rng.choice((1, 2, 3)))]
        main = {"name": "main", "image": image, "command": sleep, "resources": {"requests": {"cpu": cpu}}}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [main]}
        return {"metadata": {"name": f"native-{self.made}"}, "spec": spec}


@dataclass
class Watcher:
    """Looks at the pods of all gangs, again and again."""

    lab: Lab
    sizes: dict[str, int]
    half_since: dict[str, float] = field(default_factory=dict)
    half_seconds: list[float] = field(default_factory=list)
    away: set[str] = field(default_factory=set)

    def look(self) -> None:
        now, bound = time.monotonic(), collections.Counter[str]()
        for pod in self.lab.api.get("/api/v1/namespaces/gangs/pods")["items"]:
            status = pod["status"]
            if status.get("reason", "").startswith("OutOf"):
                self.away.add(pod["metadata"]["uid"])
            elif pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
                bound[pod["metadata"]["labels"]["headway.dev/job"]] += 1
        for name, size in self.sizes.items():
            if 0 < bound[name] < size:
                self.half_since.setdefault(name, now)
            elif name in self.half_since:
                self.half_seconds.append(now - self.half_since.pop(name))


def measure(lab: Lab, options: argparse.Namespace, folder: Path) -> None:
    rng = random.Random(options.seed)
    template = lab.pod_template()
    for name in ("native", "gangs"):
        lab.create_namespace(name)
    churn = Churn(lab, template, options.native, random.Random(options.seed + 1))
    process, said = started(lab, "gangs", folder, template, "--start-seconds", str(START_SECONDS))
    noise = threading.Thread(target=churn.run)
    noise.start()
    watcher, until = Watcher(lab, {}), time.monotonic() + options.seconds
    role = {"cpu": "200m", "command": ["sleep", "3"]}
    last = 0.0
    while time.monotonic() < until and process.poll() is None:
        if len(watcher.sizes) < options.gangs and time.monotonic() - last > options.seconds / 2 / options.gangs:
            name, workers = f"gang-{len(watcher.sizes)}", rng.choice(SIZES)
            grown = {"replicas": workers, "min": workers, "max": workers, "after": ["ps"]}
            submit(lab, "gangs", name, {"ps": role, "worker": role | grown})
            watcher.sizes[name], last = workers + 1, time.monotonic()
        watcher.look()
        ended = [one.get("phase") in ("Succeeded", "Failed") for one in phases(lab, "gangs").values()]
        if len(watcher.sizes) == options.gangs and all(ended):
            break
        time.sleep(0.1)
    churn.ending.set()
    noise.join()
    found = collections.Counter(str(one.get("phase")) for one in phases(lab, "gangs").values())
    words = said.read_text()
    process.terminate()
    process.wait()
    half = sorted(watcher.half_seconds)
    print(f"{options.kubelets} kubelets, {churn.made} native pods, {len(watcher.sizes)} gangs of 3 to 5 pods")
    print(f"jobs: {dict(found)}; starts that were refused: {words.count(': stopping:')}")
    print(f"turned away by kubelets: {len(watcher.away)} of ours, {churn.turned_away} native")
    print(f"made on another node instead of releasing the gang: {words.count('is made on another node')}")
    for line in words.splitlines():
        if ": stopping:" in line:
            print(f"  refused: {line}")
    longest = half[-1] if half else 0.0
    print(f"a gang was half bound {len(half)} times, at most {longest:.1f} s (bound: {START_SECONDS:.0f} s)")
    print(f"half bound at the end: {len(watcher.half_since)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="end after this, whatever is left")
    parser.add_argument("--kubelets", type=int, default=2)
    parser.add_argument("--native", type=int, default=6, help="native pods at once")
    parser.add_argument("--gangs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with prepared("churn", kubelets=options.kubelets, kubelet_cpus=2.0) as (lab, folder):
        measure(lab, options, folder)


if __name__ == "__main__":
    main()
