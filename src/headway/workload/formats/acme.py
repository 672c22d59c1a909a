"""Shanghai AI Lab's Acme (`trace_seren.csv`, `trace_kalos.csv`), and a converted sample with iterations.

The workload type (pretrain, eval, sft, ...) becomes the queue. Jobs without GPUs, and jobs that never ran, are dropped
and counted. In the converted form a worker may have several GPUs; it is read as several one-GPU replicas.
"""

from __future__ import annotations

from pathlib import Path

from headway.core.job import Job
from headway.workload.rows import Collector, Rows
from headway.workload.trace import Trace, rebase

NEEDS = ("job_id", "user", "node_num", "gpu_num", "type", "state", "submit_time", "duration")
NEEDS_CONVERTED = (
    "job_id", "arrival_time", "num_iteration", "iteration_computing_time", "iteration_networking_time",
    "gpu_workers", "gpu_per_worker",
)  # fmt: skip


def read(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS))
    for row, gpus in jobs.asking("gpu_num", lasting="duration"):
        jobs.add(
            Job(
                id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(gpus, "gpu_num"),
                user=row.text("user"), queue=row.text("type"), submit=row.time("submit_time"),
                seconds=row.seconds("duration"),
            )
        )  # fmt: skip
    return rebase(jobs.trace("acme"))


def read_converted(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS_CONVERTED))
    for row, gpus in jobs.asking("gpu_workers", "gpu_per_worker"):
        steps = row.count("num_iteration")
        each = row.seconds("iteration_computing_time") + row.seconds("iteration_networking_time")
        jobs.add(
            Job(
                id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(gpus, "gpu_workers"),
                submit=row.number("arrival_time"), seconds=steps * each, steps=steps or None,
            )
        )  # fmt: skip
    return jobs.trace("acme")
