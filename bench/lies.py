"""What does a lie bring? One user's jobs report what is not true, in many generated workloads.

    python bench/lies.py                    50 workloads, every lie, policy headway; 8 minutes of one core
    python bench/lies.py --workloads 8 --policy elastic

Each row: the mean completion time of the liar's jobs as a share of what it is if they report nothing (below 1: the lie
pays) with its standard error, the same share for all other users and for all jobs, the liar's best workload, and how
often the liar was better off. "tight deadline" claims a deadline that just could be met alone, and reports honestly.
Look at it with --queues: a deadline takes from others' queues nothing that they hold within their quota.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from headway.core.job import Job
from headway.core.node import FloatArray, Node, Nodes
from headway.core.quantity import GPU
from headway.cycle.loop import Decided, run
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.progress import ProgressBook
from headway.policies.registry import POLICIES
from headway.policies.wrappers.queues import Queued
from headway.policies.wrappers.quota import Queue
from headway.sim.cluster import Costs, Reports, SimCluster, World
from headway.sim.lies import LIES, told_by
from headway.sim.speed import Speed
from headway.workload.generate import generate
from headway.workload.settings import Settings

NODES = tuple(Node(name=f"node-{number}", capacity=((GPU, 8),)) for number in range(4))
LIAR = "user-1"
DEADLINE = "tight deadline"
CHOICES = (*LIES, DEADLINE)


@dataclass(frozen=True, slots=True)
class Setup:
    policy: str
    jobs: int
    elastic: float
    load: float
    queues: bool


def completions(setup: Setup, seed: int, lie: str) -> tuple[float, float, float]:
    """Mean completion time of the liar's jobs, of everybody else's, and of all."""
    settings = Settings(
        jobs=setup.jobs,
        seed=seed,
        load=setup.load,
        users=6,
        elastic=setup.elastic,
        mean_seconds=3600.0,
        spread=1.3,
        longest_seconds=86400.0,
    )
    trace = generate(settings, NODES)
    truth = {job.id: job.seconds or 1.0 for job in trace.jobs}
    submitted = [claimed(job, truth[job.id], lie) for job in trace.jobs]
    world = World(
        costs=Costs(start=30.0, save=10.0, scale=30.0),
        speed=Speed(profiles=BUILT_IN),
        work=lambda job: truth[job.id],
        reports=Reports(seconds=60.0, growth=0.02),
        tells=told_by(LIAR, LIES.get(lie, LIES["honest"])),
        seed=seed,
    )
    cluster = SimCluster(Nodes.of(NODES), submitted, world)
    ended: dict[str, float] = {}

    def observe(decided: Decided) -> None:
        jobs = decided.snapshot.jobs
        for row in decided.snapshot.changed:
            if jobs.is_over(row):
                ended.setdefault(jobs.job(row).id, decided.snapshot.now)

    shares = tuple(Queue(name=f"user-{number}", quota=((GPU, 5),)) for number in range(6))
    policy = POLICIES[setup.policy]()
    run(cluster, Queued(policy, shares) if setup.queues else policy, ProgressBook(), observe)
    took = {job.id: ended.get(job.id, cluster.now) - job.submit for job in submitted}
    liars = [took[job.id] for job in submitted if job.user == LIAR]
    others = [took[job.id] for job in submitted if job.user != LIAR]
    return float(np.mean(liars)) if liars else math.nan, float(np.mean(others)), float(np.mean([*liars, *others]))


def claimed(job: Job, seconds: float, lie: str) -> Job:
    """The job as its user submits it: nobody declares a duration, each user has a queue."""
    job = replace(job, seconds=None, queue=job.user, deadline=None)
    if job.user != LIAR:
        return job
    if lie == DEADLINE:
        return replace(job, deadline=job.submit + 1.1 * seconds + 60.0)
    return replace(job, steps=max(1, (job.steps or 1) // 20)) if lie == "tiny total" else job


def row(lie: str, found: FloatArray, silent: FloatArray) -> str:
    """Columns of both: liar, others, all."""
    liar, others, all_ = np.nanmean(found, axis=0) / np.nanmean(silent, axis=0)
    beside = (found[:, 0] - liar * silent[:, 0]) / np.nanmean(silent[:, 0])
    error = np.nanstd(beside, ddof=1) / math.sqrt(len(found))
    ratio = found[:, 0] / silent[:, 0]
    shares = f"{liar:7.3f} {error:6.3f} {others:7.3f} {all_:7.3f}"
    return f"{lie:<20} {shares} {np.nanmin(ratio):7.3f} {float(np.nanmean(ratio < 0.95)):11.0%}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--policy", default="headway")
    parser.add_argument("--elastic", type=float, default=0.5, help="share of jobs whose size may be chosen")
    parser.add_argument("--load", type=float, default=2.0)
    parser.add_argument("--queues", action="store_true", help="each user has a queue with an equal quota")
    parser.add_argument("--lies", default=",".join(CHOICES[1:]))
    parser.add_argument("--cores", type=int, default=2)
    chosen = parser.parse_args(arguments)
    seeds = range(1000, 1000 + chosen.workloads)
    with ProcessPoolExecutor(chosen.cores) as pool:
        setup = Setup(chosen.policy, chosen.jobs, chosen.elastic, chosen.load, chosen.queues)
        one = partial(completions, setup)
        silent = np.array(list(pool.map(one, seeds, ["silent"] * len(seeds))))
        print(f"{chosen.policy}, {chosen.workloads} workloads of {chosen.jobs} jobs; as a share of not reporting")
        print(f"{'the liar reports':<20} {'liar':>7} {'+-':>6} {'others':>7} {'all':>7} {'best':>7} {'better off':>11}")
        for lie in chosen.lies.split(","):
            found = np.array(list(pool.map(one, seeds, [lie] * len(seeds))))
            print(row(lie, found, silent), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
