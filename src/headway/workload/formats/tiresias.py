"""Tiresias: one row per job, in seconds. Some files have the tenant in the column `vc`."""

from __future__ import annotations

from pathlib import Path

from headway.core.job import Job
from headway.workload.rows import Collector, Rows
from headway.workload.trace import Trace

NEEDS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")


def read(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS))
    for row, gpus in jobs.asking("num_gpu"):
        tenant = row.text("vc")
        jobs.add(
            Job(
                id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(gpus, "num_gpu"), user=tenant,
                queue=tenant, submit=row.number("submit_time"), seconds=row.seconds("duration"),
                steps=row.count("iterations") or None, model=row.text("model_name"),
            )
        )  # fmt: skip
    return jobs.trace("tiresias")
