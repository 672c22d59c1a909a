"""Generated TrainingJobs, statuses and pods against a live scheduler: does it survive, and do other jobs still start?

    python bench/objects.py [--cases 10000] [--starts 1] [--seed 1] [--ahead]

It starts a lab with simulated nodes. A tenant with the role `edit` in one namespace submits what the API server
accepts, from plausible to absurd, half of it while `headway schedule` runs and half while it is down. Statuses that
Headway did not write are set, pods are forged that name a job of another tenant, and as many progress lines are sent
to the scheduler, by a pod of the attacker and by nobody. After each part a healthy job of that other tenant is
submitted. It prints how long until its pods are bound, and fails if that takes more than 5 seconds, if the process or
one of its threads ended, or if the job of the other tenant was disturbed. `--ahead`: other programs wait meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "kube")]
from ahead import ahead  # noqa: E402
from doors import KINDS, case, line  # noqa: E402
from hostile import accepted_specs, statuses  # noqa: E402
from tenant import Tenant  # noqa: E402

from headway.lab import Lab  # noqa: E402
from headway.lab.api import LabApiError  # noqa: E402
from headway.lab.node_shapes import node_groups  # noqa: E402

JOBS = "/apis/headway.dev/v1alpha1/namespaces/{}/trainingjobs"
LIMIT_SECONDS = 5.0
LONGEST_SECONDS = 60.0
SENDERS = 8
LEVELS = 3000
DEEP = b'{"roles":{"worker":{}},"template":' + b'{"a":[' * LEVELS + b"1" + b"]}" * LEVELS + b"}"
HEALTHY = {"roles": {"worker": {"replicas": 2, "cpu": "100m"}}}


def generated(cases: int, number: int) -> list[tuple[bytes, Any]]:
    """Specs and statuses."""
    found: list[tuple[bytes, Any]] = []

    @seed(number)
    @settings(max_examples=cases, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(accepted_specs, st.none() | statuses)
    def take(spec: Any, status: Any) -> None:
        found.append((json.dumps(spec).encode(), status))

    while len(found) < cases:
        take()
        number += 1
    found[:: max(1, cases // 20)] = [(DEEP, None) for _ in found[:: max(1, cases // 20)]]
    return found[:cases]


class Scheduler:
    """`headway schedule` as a process, with the rights of the shipped role."""

    def __init__(self, lab: Lab, folder: Path, *options: str) -> None:
        self.folder, self.output, self.options = folder, folder / "output", options
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        account = "/api/v1/namespaces/headway-system/serviceaccounts/headway/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
        config = yaml.safe_load(lab.kubeconfig.read_bytes())
        config["users"][0]["user"] = {"token": lab.api.post(account, asked)["status"]["token"]}
        (folder / "kubeconfig").write_text(json.dumps(config))
        (folder / "template").write_text(json.dumps({"spec": {"containers": [{"name": "main", "image": "x"}]}}))

    def start(self) -> None:
        command = [sys.executable, "-m", "headway", "schedule", "--kubeconfig", str(self.folder / "kubeconfig"),
                   "--template", str(self.folder / "template"), "--log", str(self.folder / "log"),
                   "--progress-listen", self.address, "--progress-address", self.address, *self.options]  # fmt: skip
        self.said = len(self.words()) if self.output.exists() else 0
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def is_up(self) -> bool:
        """Whether this process has read all objects and begun to decide."""
        return "scheduling with policy" in self.words()[self.said :]

    def threads(self) -> int:
        assert self.process.poll() is None, f"the scheduler ended:\n{self.words()[-3000:]}"
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def cpu(self) -> float:
        """Processor seconds of this process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def words(self) -> str:
        return self.output.read_text(errors="replace")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def submit_all(tenant: Tenant, objects: list[tuple[bytes, Any]], first: int) -> Counter[str]:
    """How many objects and statuses the API server accepted."""

    def one(numbered: tuple[int, tuple[bytes, Any]]) -> str:
        number, (spec, status) = numbered
        head = b'{"apiVersion":"headway.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"g%d"},"spec":' % number
        answer = tenant.send("POST", JOBS.format(tenant.namespace), head + spec + b"}")[0]
        if answer != 201:
            return f"refused ({answer})"
        if not isinstance(status, dict):
            return "accepted"
        try:
            tenant.lab.api.patch(f"{JOBS.format(tenant.namespace)}/g{number}/status", {"status": status})
        except LabApiError:
            return "accepted, its status refused"
        return "accepted with a status"

    with ThreadPoolExecutor(SENDERS) as pool:
        return Counter(pool.map(one, enumerate(objects, first)))


def bound_after(lab: Lab, other: Tenant, name: str) -> float:
    """Submits a healthy job; the seconds until both its pods are bound."""
    began = time.monotonic()
    other.submit(name, HEALTHY)
    while time.monotonic() - began < LONGEST_SECONDS:
        pods = lab.api.get(f"/api/v1/namespaces/{other.namespace}/pods?labelSelector=headway.dev/job={name}")["items"]
        if sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 2:
            return time.monotonic() - began
        time.sleep(0.05)
    raise AssertionError(f"{name} was not started within {LONGEST_SECONDS:g} s")


def restart(lab: Lab, scheduler: Scheduler, other: Tenant, name: str) -> float:
    """Starts the scheduler beside all objects, and submits a healthy job at once; the seconds until it is bound."""
    began, up, log = time.monotonic(), list[float](), scheduler.folder / "log"

    def wait_until_up() -> None:
        while not scheduler.is_up():
            time.sleep(0.05)
        up.extend((time.monotonic() - began, scheduler.cpu()))

    scheduler.start()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(wait_until_up)
        seconds = bound_after(lab, other, name)
        cpu = scheduler.cpu()
    print(f"bound after {seconds:.2f} s from the start of the process ({cpu:.2f} s of cpu)", flush=True)
    print(
        f"it was up after {up[0]:.2f} s ({up[1]:.2f} s of cpu); its log has {log.stat().st_size / 1e6:.1f} MB",
        flush=True,
    )
    return seconds


def forge(lab: Lab, forger: Tenant, victim: Tenant, name: str, count: int) -> None:
    """Pods that fail, and say that they are replicas of a job: in its namespace or in another."""
    job = json.loads(victim.read(name))
    path = f"/api/v1/namespaces/{victim.namespace}/pods?labelSelector=headway.dev/job={name}"
    (real, *_) = lab.api.get(path)["items"]
    owner = {"apiVersion": "headway.dev/v1alpha1", "kind": "TrainingJob", "name": name, "uid": job["metadata"]["uid"],
             "controller": True}  # fmt: skip
    for number in range(count):
        notes = {**real["metadata"]["annotations"], "headway.dev/lab-fail": "Forged"}
        meta = {"name": f"{name}-{number % 3}-worker-{number + 2}", "labels": real["metadata"]["labels"]}
        body = {"apiVersion": "v1", "kind": "Pod",
                "metadata": {**meta, "namespace": forger.namespace, "annotations": notes, "ownerReferences": [owner]},
                "spec": {"nodeName": real["spec"]["nodeName"],
                         "containers": [{"name": "main", "image": "x"}]}}  # fmt: skip
        forger.create_pod(body)


def talk(lab: Lab, scheduler: Scheduler, attacker: Tenant, name: str, lines: int) -> str:
    """Sends hostile progress lines: every other connection shows the token of the attacker's own pod."""
    pods = f"/api/v1/namespaces/{attacker.namespace}/pods?labelSelector=headway.dev/job={name}"
    meta = lab.api.get(pods)["items"][0]["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
             "spec": {"audiences": ["headway"], "boundObjectRef": bound}}  # fmt: skip
    account = f"/api/v1/namespaces/{attacker.namespace}/serviceaccounts/default/token"
    token = lab.api.post(account, asked)["status"]["token"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    random_, sent, ended, connections = random.Random(lines), 0, 0, 0
    host, port = scheduler.address.split(":")
    while sent < lines:
        connections += 1
        ended += 1
        with suppress(OSError):  # the server may end a connection at any time
            plain = socket.create_connection((host, int(port)), timeout=5)
            with context.wrap_socket(plain, server_hostname="headway-progress") as sock:
                sock.sendall(line({"hello": 1, **({"token": token} if connections % 2 else {})}))
                for _ in range(5):
                    said = case(random_.choice(KINDS), random_).partition(b"\n")[2]
                    sent += max(1, said.count(b"\n"))
                    sock.sendall(said if said.endswith(b"\n") else said + b"\n")
            ended -= 1
        sent += 5 if ended == connections else 0
    return f"{sent:,} lines in {connections} connections, {ended} of which the server ended"


def undisturbed(victim: Tenant, name: str) -> None:
    status = json.loads(victim.read(name))["status"]
    assert (status["attempt"], status["phase"]) in ((0, "Starting"), (0, "Running")), status


def attack(lab: Lab, folder: Path, objects: list[tuple[bytes, Any]], options: argparse.Namespace) -> None:
    for name in ("attacker", "other"):
        lab.create_namespace(name)
    attacker, other = Tenant(lab, "attacker"), Tenant(lab, "other")
    scheduler = Scheduler(lab, folder)
    scheduler.start()
    try:
        under_attack(lab, scheduler, attacker, other, objects, options)
    finally:
        scheduler.process.kill()
        scheduler.process.wait()


def under_attack(
    lab: Lab,
    scheduler: Scheduler,
    attacker: Tenant,
    other: Tenant,
    objects: list[tuple[bytes, Any]],
    options: argparse.Namespace,
) -> None:
    print(f"quiet: a healthy job is bound after {bound_after(lab, other, 'before'):.2f} s", flush=True)
    bound_after(lab, attacker, "own")
    threads, half, took = scheduler.threads(), len(objects) // 2, list[float]()
    for part, first in (("while it runs", 0), ("while it is down, then a start", half)):
        if first:
            scheduler.process.kill()
            scheduler.process.wait()
        began = time.monotonic()
        answers = submit_all(attacker, objects[first : first + half], first)
        print(f"{part}: {dict(answers)} in {time.monotonic() - began:.0f} s", flush=True)
        if first:
            for number in range(options.starts):
                scheduler.process.kill()
                scheduler.process.wait()
                with ahead(lab, wanted=options.ahead):
                    took.append(restart(lab, scheduler, other, f"at-start-{number}"))
        print(f"{part}: {talk(lab, scheduler, attacker, 'own', half)}", flush=True)
        forge(lab, attacker, other, "before", 20)
        if first:
            forge(lab, other, other, "before", 20)
        took.append(bound_after(lab, other, f"after-{first}"))
        print(f"{part}: a healthy job is bound after {took[-1]:.2f} s", flush=True)
        assert scheduler.threads() >= threads, "a thread has ended"
        undisturbed(other, "before")
        for pod in lab.api.get("/api/v1/namespaces/attacker/pods?limit=500")["items"]:
            if pod["metadata"]["name"].startswith("before-"):
                lab.api.delete(f"/api/v1/namespaces/attacker/pods/{pod['metadata']['name']}")
    phases = Counter(line.split(": ", 2)[-1][:60] for line in scheduler.words().splitlines() if "could not" in line)
    print(f"faults that nobody foresaw: {sum(phases.values())} {dict(phases.most_common(10))}")
    assert "Traceback" not in scheduler.words()
    assert scheduler.stop() == 0
    assert max(took) <= LIMIT_SECONDS, f"{max(took):.1f} s is more than {LIMIT_SECONDS:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--starts", type=int, default=1, help="how often it is killed and started beside all objects")
    parser.add_argument("--ahead", action="store_true", help="time starts ahead of other programs; needs root")
    options = parser.parse_args()
    began, objects = time.monotonic(), generated(options.cases, options.seed)
    print(f"generated {len(objects):,} in {time.monotonic() - began:.0f} s", flush=True)
    lab = Lab.up(f"bench-{os.getpid()}", simulated=node_groups(200, ["96cpu,768Gi"]), owned=True)
    try:
        install = [sys.executable, "-m", "headway", "schedule", "--install", "--kubeconfig", str(lab.kubeconfig)]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as folder:
            try:
                attack(lab, Path(folder), objects, options)
            except BaseException:
                print((Path(folder) / "output").read_text(errors="replace")[-4000:])
                raise
    finally:
        lab.down()


if __name__ == "__main__":
    main()
