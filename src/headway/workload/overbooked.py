"""Generated jobs whose users ask for more cpu than they use: by how much, how many workers, how long, when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.core.quantity import CPU
from headway.workload.trace import Trace

CORES = (0.5, 1.0, 2.0)
"""What a worker uses."""
WORKERS = (1, 2, 4)
MEAN_SECONDS = 3600.0


def overbooked(
    name: str, jobs: int, load: float, factors: tuple[float, float], nodes: Sequence[Node], seed: tuple[int, ...]
) -> tuple[Trace, Mapping[str, float]]:
    """The trace, and by job the share of its requested cpu that it uses. `factors`: by how much users ask for too much.

    Lengths are lognormal (sigma 1), arrivals uniform at the rate that gives the load by what is asked for.
    """
    dice = np.random.default_rng(seed)
    used, workers = dice.choice(CORES, jobs), dice.choice(WORKERS, jobs)
    asked = np.round(used * dice.uniform(*factors, jobs), 3)
    seconds = np.round(MEAN_SECONDS * np.exp(dice.standard_normal(jobs) - 0.5), 3)
    cores = sum(amount for node in nodes for kind, amount in node.capacity if kind == CPU) / 1000.0
    window = math.fsum(asked * workers * seconds) / (cores * load)
    submits = np.round(np.sort(dice.uniform(0.0, window, jobs)), 3)
    made = tuple(
        Job(
            id=JobId(f"job-{i:03}"), roles=(_worker(int(workers[i]), float(asked[i])),), submit=float(submits[i]),
            steps=100_000,
        )
        for i in range(jobs)
    )  # fmt: skip
    truth = {job.id: float(took) for job, took in zip(made, seconds, strict=True)}
    needs = {str(job.id): float(one / all_) for job, one, all_ in zip(made, used, asked, strict=True)}
    return Trace(name=name, jobs=made, nodes=tuple(nodes), truth=truth), needs


def _worker(replicas: int, cores: float) -> Role:
    return Role(
        name="worker", replicas=replicas, min=replicas, max=replicas, request=((CPU, round(1000 * cores)),)
    )  # fmt: skip
