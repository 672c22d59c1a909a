"""Pollux and Sia: which application, how many replicas, what batch size. The files have no durations.

Declared seconds and steps come from `FITS`: power laws in replicas and batch size. They are fitted to the time that
Pollux's own T4 profiles and validation curves give for every configuration in its workloads (packed on nodes of four
GPUs, batch size fixed, exchange once per accumulated batch). yolov3 is fitted to the published completion times, which
the profiles miss. They are within 15 % of the shortest published completion times of equal jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from headway.core.job import Job
from headway.workload.rows import Collector, Rows, elastic_roles
from headway.workload.trace import Trace

NEEDS = ("name", "time", "application", "num_replicas", "batch_size")
MOST_GPUS = 64
"""The cluster of the paper."""


@dataclass(frozen=True, slots=True)
class PolluxFit:
    base_batch: int
    seconds: float
    """On one T4 at the base batch size, to the published target metric."""
    by_replicas: float
    by_batch: float
    steps: float
    """Iterations to the target at the base batch size."""
    steps_by_batch: float


FITS = {
    "bert": PolluxFit(12, 13_573, -0.874, 0.022, 14_774, -0.990),
    "cifar10": PolluxFit(128, 4_049, -0.619, -0.128, 39_062, -0.867),
    "deepspeech2": PolluxFit(20, 19_280, -0.550, -0.195, 28_536, -0.876),
    "imagenet": PolluxFit(200, 382_800, -0.869, 0.097, 576_525, -0.893),
    "ncf": PolluxFit(256, 1_443, 0.286, -0.779, 194_174, -0.996),
    "yolov3": PolluxFit(8, 33_738, -0.300, -0.221, 103_444, -0.850),
}


def read(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS))
    for row, gpus in jobs.asking("num_replicas"):
        model = row.text("application")
        batch = row.count("batch_size")
        if not batch:
            raise row.error("batch_size", "must be at least 1, not 0")
        fit = FITS.get(model)
        if fit is None:
            jobs.remarks[f"run {model}, of which no duration is known"] += 1
        jobs.add(
            Job(
                id=jobs.job_id(row.text("name"), "name"), roles=elastic_roles(gpus, MOST_GPUS), model=model,
                submit=row.number("time"), seconds=_seconds(fit, gpus, batch) if fit else None,
                steps=_steps(fit, batch) if fit else None,
            )
        )  # fmt: skip
    return jobs.trace("pollux", "durations and steps are power laws fitted to the T4 profiles of Pollux")


def _seconds(fit: PolluxFit, gpus: int, batch: int) -> float:
    return round(fit.seconds * math.pow(gpus, fit.by_replicas) * math.pow(batch / fit.base_batch, fit.by_batch), 1)


def _steps(fit: PolluxFit, batch: int) -> int:
    return max(1, round(fit.steps * math.pow(batch / fit.base_batch, fit.steps_by_batch)))
