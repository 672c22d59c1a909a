"""What does choosing sizes cost? Rows for `decisions.py --sizes` and `speed.py --sizes`.

`cycles`: jobs that may have any size, all submitted at once; processor milliseconds per cycle (snapshot, book, policy,
check and log together). `whole`: published workloads from beginning to end; processor seconds. Other work on the same
cores makes both longer, so every row has the time of one turn of an empty loop (`loop_ns`, about 30 on a quiet one).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from headway.cli.wiring import make_book, make_policy
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.quantity import GPU
from headway.cycle.loop import Decided, run
from headway.estimates.models.coefficients import BUILT_IN
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.sim.cluster import Costs, SimCluster, World
from headway.sim.speed import Speed
from headway.sim.world import Reports
from headway.workload.open import open_workload

COSTS = Costs(start=30.0, scale=30.0, save=10.0, resize=1.0)
REPORTS = Reports(seconds=60.0, growth=0.1)
MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
PARTS = 1_000_000


class EnoughError(Exception):
    """The time for a measurement is over."""


def loop_ns(turns: int = 300_000) -> float:
    begun, total = time.process_time(), 0
    for number in range(turns):
        total += number
    return 1e9 * (time.process_time() - begun) / turns


def jobs_at_once(count: int) -> tuple[list[Job], dict[JobId, float]]:
    """Jobs of 1 to 64 GPUs, and their seconds at the size that they ask for."""
    dice, jobs = random.Random(1), []
    for number in range(count):
        asked = dice.choice([1, 1, 1, 2, 2, 4, 4, 8])
        role = Role(name="worker", replicas=asked, min=1, max=min(64, 8 * asked), request=((GPU, 1),))
        jobs.append(Job(id=JobId(f"j{number}"), roles=(role,), steps=PARTS, model=dice.choice(MODELS)))
    return jobs, {job.id: dice.lognormvariate(7.0, 1.2) for job in jobs}


def cycles(policy: str, count: int, gpus: int, seconds: float) -> dict[str, object]:
    """Stops after this many processor seconds, or when all jobs are done."""
    jobs, work = jobs_at_once(count)
    nodes = Nodes.of(Node(name=f"n{number}", capacity=((GPU, 8),)) for number in range(gpus // 8))
    world = World(costs=COSTS, speed=Speed(profiles=BUILT_IN), work=lambda job: work[job.id], reports=REPORTS)
    found, unfinished = _timed(SimCluster(nodes, jobs, world), policy, seconds)
    each = 1e3 * np.array(found)
    return {
        "policy": policy, "jobs": count, "gpus": gpus, "cycles": len(each), "unfinished": unfinished,
        "p50_ms": round(float(np.median(each)), 2), "p99_ms": round(float(np.percentile(each, 99)), 2),
        "max_ms": round(float(each.max()), 2), "loop_ns": round(loop_ns(), 1),
    }  # fmt: skip


def whole(policy: str, workloads: Sequence[Path], nodes: int = 16, each: int = 4) -> dict[str, object]:
    """Workloads of Pollux's or Sia's, all at the same time, sized by progress alone."""
    jobs, truth = list[Job](), dict[JobId, float]()
    for number, path in enumerate(workloads):
        trace = open_workload(path)
        for job in trace.jobs:
            named = replace(job, id=JobId(f"{job.id}.{number}" if number else job.id))
            jobs.append(named)
            truth[named.id] = trace.work(job) or 0.0
    table = Nodes.of(Node(name=f"n{number}", capacity=((GPU, each),)) for number in range(nodes))
    world = World(costs=COSTS, speed=Speed(profiles=BUILT_IN), work=lambda job: truth[job.id], reports=REPORTS)
    found, unfinished = _timed(SimCluster(table, jobs, world), policy, float("inf"))
    return {
        "policy": policy, "workload": " ".join(f"{path.parent.name}/{path.name}" for path in workloads),
        "jobs": len(jobs), "gpus": nodes * each, "unfinished": unfinished, "cycles": len(found),
        "cpu_s": round(sum(found), 2), "loop_ns": round(loop_ns(), 1),
    }  # fmt: skip


def _timed(cluster: SimCluster, policy: str, seconds: float) -> tuple[list[float], int]:
    """Processor seconds of each cycle, and how many jobs were left."""
    writer, found, last = LogWriter(None, Head("sim", policy, "progress")), list[float](), [time.process_time()]
    until = last[0] + seconds

    def observe(decided: Decided) -> None:
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        now = time.process_time()
        found.append(now - last[0])
        last[0] = now
        if now > until:
            raise EnoughError

    with contextlib.suppress(EnoughError):
        run(cluster, make_policy(policy), make_book("progress"), observe)
    return found, cluster.board.unfinished
