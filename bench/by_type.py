"""How long a cycle of `headway` takes where nodes have three types of accelerators.

    python bench/by_type.py [--jobs 1000] [--nodes 60] [--seconds 1800]

Jobs of one, two and four GPUs on nodes of 8 K80, P100 or V100; nine in ten come at once. Milliseconds of processor time
of the policy, and of the policy and its book, in all cycles in which a fifth of the jobs or more are not done.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from headway.beliefs.books import make_book
from headway.core.job import Job, JobId
from headway.core.node import Node, Nodes
from headway.policies.headway import Headway
from headway.sim.cluster import Costs, Reports, SimCluster
from headway.sim.speed import Speed
from headway.sim.world import World
from headway.workload.rows import gpu_roles

SHARES = {"k80": 3, "p100": 2, "v100": 1}


def cluster(count: int, nodes: int, *, blind: bool) -> SimCluster:
    chance = np.random.default_rng(0)
    seconds, width = np.exp(chance.normal(9.5, 1.3, count)), chance.choice([1, 1, 1, 1, 2, 4], count)
    submit = np.sort(np.where(np.arange(count) < 0.9 * count, 0.0, chance.uniform(0.0, 3600.0, count)))
    slower = np.stack([np.ones(count), chance.uniform(1.0, 2.0, count), chance.uniform(2.0, 10.0, count)])
    on = {
        JobId(f"j{n}"): dict(zip(("v100", "p100", "k80"), (seconds[n] * slower[:, n]).tolist(), strict=True))
        for n in range(count)
    }
    jobs = [
        Job(id=name, roles=gpu_roles(int(width[n])), submit=float(submit[n]), steps=10_000, model=f"m{n % 20}",
            seconds=None if blind else float(seconds[n]))
        for n, name in enumerate(on)
    ]  # fmt: skip
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    table = Nodes.of(
        Node(name=f"n{n}", capacity=(("gpu", 8),), accelerator=kinds[n % len(kinds)]) for n in range(nodes)
    )
    world = World(
        samples=blind, speed=Speed(seconds_on=on), work=lambda job: on[job.id]["v100"], reports=Reports(seconds=30.0),
        costs=Costs(start=30.0, save=10.0),
    )  # fmt: skip
    return SimCluster(table, jobs, world)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1800.0)
    args = parser.parse_args()
    for estimates in ("oracle", "progress"):
        sim = cluster(args.jobs, args.nodes, blind=estimates == "progress")
        book = make_book(estimates, sim.truth, sim.speed_at, on_types=sim.speed_on)
        policy, took = Headway(), []
        while (snapshot := sim.next_snapshot()) is not None and snapshot.now < args.seconds:
            begin = time.process_time()
            book = book.fold(snapshot)
            told = book.annotate(snapshot)
            asked = time.process_time()
            plan = policy(told)
            end = time.process_time()
            if np.count_nonzero(~snapshot.jobs.over()) >= args.jobs / 5:
                took.append((end - asked, end - begin))
            sim.apply(plan)
        for name, column in zip(("policy", "policy and book"), 1e3 * np.array(took).T, strict=True):
            p50, p99 = np.percentile(column, [50, 99])
            print(f"{estimates:9} {name:16} {len(column):6} cycles: p50 {p50:6.1f} ms, p99 {p99:6.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
