"""Real training in real pods: the same jobs under the native scheduler and under Headway, in alternating order.

    python bench/native/training.py --seeds 6 --out training.json

Twelve short jobs of example models come to two real kubelets with 0.8 cores each, some of them gangs of a chief and
workers. Nobody declares how long a job takes. Under the native scheduler their pods are there from the start; under
Headway they are TrainingJobs of the default policy. A job's completion counts from its submission to the end of its
last pod. Each run is kept in the file; the same command goes on with those that lack.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from schedule_process import JOBS, phases, prepared, started

import headway
from headway.core.job import Job, JobId, Role
from headway.experiment.native.proof import sign_flip
from headway.kube.api.objects import Meta
from headway.kube.gangs.model import Create, Publish
from headway.kube.intake.spec import manifest_of
from headway.kube.pods.body import body_of, pod_of
from headway.kube.pods.hosts import addresses
from headway.kube.settings import PodDefaults
from headway.lab import Lab

EXAMPLES = Path(__file__).parents[2] / "examples"
CORES = 0.8
"""Of each kubelet."""
CORE, MEMORY = 400, 500
"""Of a replica: thousandths of a core, MiB."""
MODELS = {"mlp": 55.0, "autoencoder": 45.0, "gru": 40.0}
"""Steps a second of one replica with that."""
SHORTEST, LONGEST = 60.0, 300.0
"""Seconds of training alone: a minute or more, so that starts and stops are a small part."""
COUNT, GANGS = 12, 3
ARRIVE = 60.0
"""All jobs come within so many seconds."""
DEADLINE = 1800.0


@dataclass(frozen=True, slots=True)
class TrainingTask:
    name: str
    at: float
    model: str
    steps: int
    workers: int
    """Beside the chief."""

    def job(self, namespace: str) -> Job:
        amounts = (("cpu", CORE), ("memory", MEMORY))
        script = "distributed.py" if self.workers else "single.py"
        command = ("python", str(EXAMPLES / "train" / script), "--model", self.model, "--steps", str(self.steps))
        roles = [Role(name="chief", request=amounts, command=command)]
        if self.workers:
            count = self.workers
            roles.append(Role(
                name="worker", replicas=count, min=count, max=count, request=amounts, command=command, after=("chief",)
            ))  # fmt: skip
        return Job(id=JobId(f"{namespace}/{self.name}"), roles=tuple(roles), steps=self.steps, model=self.model)


def tasks(seed: int) -> list[TrainingTask]:
    """Lengths are drawn evenly on a scale of logarithms: many short jobs and a few long ones."""
    dice, made = random.Random(seed), []
    for number in range(COUNT):
        model = dice.choice(sorted(MODELS))
        seconds = SHORTEST * (LONGEST / SHORTEST) ** dice.random()
        workers = 1 if number % (COUNT // GANGS) == 1 else 0
        at = 0.0 if not number else dice.uniform(0.0, ARRIVE)
        made.append(TrainingTask(f"j{number:02}", at, model, int(seconds * MODELS[model]), workers))
    return sorted(made, key=lambda task: task.at)


# ── two ways to run them ────────────────────────────────────────────────────────────────────────────────────


def submit_native(lab: Lab, namespace: str, task: TrainingTask, defaults: PodDefaults) -> None:
    """The pods that Headway would make, all at once and for the native scheduler."""
    job, meta = task.job(namespace), Meta(name=task.name, namespace=namespace, uid="00000000")
    counts = tuple((role.name, role.replicas) for role in job.roles)
    hosts = tuple((name, addresses(name, range(count), task.name)) for name, count in counts)
    service = body_of(Publish(task.name), job, meta, {}, defaults)
    assert service is not None
    service["metadata"].pop("ownerReferences", None)
    lab.api.post(f"/api/v1/namespaces/{namespace}/services", service)
    for role in job.roles:
        for index in range(role.replicas):
            create = Create(f"{task.name}-{role.name}-{index}", role.name, index, 0, "", role.request, hosts, counts,
                            subdomain=task.name)  # fmt: skip
            body = pod_of(create, job, meta, {}, defaults)
            del body["metadata"]["ownerReferences"]
            body["spec"]["schedulerName"] = "default-scheduler"
            lab.api.post(f"/api/v1/namespaces/{namespace}/pods", body)


def submit_headway(lab: Lab, namespace: str, task: TrainingTask) -> None:
    body = manifest_of(task.job(namespace), namespace)
    body["metadata"] = {"name": task.name}
    lab.api.post(JOBS.format(namespace), json.loads(json.dumps(body)))


def ended_native(lab: Lab, namespace: str) -> dict[str, bool]:
    """By job: whether all its pods have ended well. Raises if one has failed."""
    found: dict[str, bool] = {}
    for pod in lab.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
        name, phase = pod["metadata"]["labels"]["headway.dev/job"], pod["status"].get("phase")
        if phase == "Failed":
            raise SystemExit(f"training: pod {pod['metadata']['name']} failed: {pod['status']}")
        found[name] = found.get(name, True) and phase == "Succeeded"
    return found


def ended_headway(lab: Lab, namespace: str) -> dict[str, bool]:
    found = phases(lab, namespace)
    failed = [name for name, status in found.items() if status.get("phase") == "Failed"]
    if failed:
        raise SystemExit(f"training: job {failed[0]} failed: {found[failed[0]]}")
    return {name: status.get("phase") == "Succeeded" for name, status in found.items()}


def run(lab: Lab, by: str, seed: int, folder: Path) -> dict[str, Any]:
    namespace = f"{by}-{seed}"
    lab.create_namespace(namespace)
    template = lab.pod_template(paths=[Path(headway.__path__[0]).parent, EXAMPLES])
    shared, process = str(lab.shared / namespace), None
    if by == "headway":
        process, _ = started(lab, namespace, folder, template, "--measure", "off", "--checkpoints", shared)
        time.sleep(3.0)
    defaults = PodDefaults(template=template, checkpoints=shared)
    todo, open_, done, began = tasks(seed), dict[str, float](), dict[str, float](), time.monotonic()
    while todo or open_:
        now = time.monotonic() - began
        while todo and todo[0].at <= now:
            task = todo.pop(0)
            open_[task.name] = now
            if process is None:
                submit_native(lab, namespace, task, defaults)
            else:
                submit_headway(lab, namespace, task)
        ended = ended_native(lab, namespace) if process is None else ended_headway(lab, namespace)
        for name in [name for name in open_ if ended.get(name)]:
            done[name] = time.monotonic() - began - open_.pop(name)
        if now > DEADLINE:
            raise SystemExit(f"training: {by}, seed {seed}: {sorted(open_)} are not done after {DEADLINE:g} s")
        time.sleep(0.5)
    if process is not None:
        process.terminate()
        process.wait(60)
    lab.api.delete(f"/api/v1/namespaces/{namespace}")
    return {"jobs": done, "mean": statistics.fmean(done.values()), "last": time.monotonic() - began,
            "load": os.getloadavg()[0]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path("training.json"), help="keep the runs here, and go on")
    chosen = parser.parse_args()
    kept: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    with prepared("training", kubelets=2, kubelet_cpus=CORES, proxy=False) as (lab, _):
        for seed in range(1, chosen.seeds + 1):
            for by in ("native", "headway") if seed % 2 else ("headway", "native"):
                if f"{by} {seed}" in kept:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    one = kept[f"{by} {seed}"] = run(lab, by, seed, Path(folder))
                chosen.out.write_text(json.dumps(kept, indent=1))
                print(
                    f"seed {seed}, {by}: mean {one['mean']:.1f} s, last {one['last']:.0f} s; load {one['load']:.1f}",
                    flush=True,
                )
    show(kept, chosen.seeds)


def show(kept: dict[str, Any], seeds: int) -> None:
    pairs = [(kept[f"headway {seed}"], kept[f"native {seed}"]) for seed in range(1, seeds + 1)]
    logs = np.log([ours["mean"] / theirs["mean"] for ours, theirs in pairs])
    print(f"\n{'seed':>4} {'native':>9} {'headway':>9} {'ratio':>6}   slower jobs")
    for seed, (ours, theirs) in enumerate(pairs, 1):
        slower = [f"{name} {ours['jobs'][name]:.0f} for {took:.0f}" for name, took in sorted(theirs["jobs"].items())
                  if ours["jobs"][name] > 1.2 * took + 10.0]  # fmt: skip
        ratio = ours["mean"] / theirs["mean"]
        print(f"{seed:>4} {theirs['mean']:>7.1f} s {ours['mean']:>7.1f} s {ratio:>6.3f}   {', '.join(slower)}")
    print(f"mean ratio {np.exp(logs.mean()):.3f}; chance {sign_flip(logs):.4f}, {len(logs)} seeds")


if __name__ == "__main__":
    main()
