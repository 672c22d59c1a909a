"""ElasticFlow's traces: one hard deadline per job, on the same clock as the submissions, and jobs of 1 to 64 GPUs.

There are two forms: the joined ITP table (`itp_jobs_deadline`, seven clusters) and the csv of its simulator.
"""

from __future__ import annotations

from pathlib import Path

from headway.core.job import Job
from headway.workload.rows import Collector, Rows, elastic_roles
from headway.workload.trace import Trace

NEEDS = ("job_id", "submit_time", "iteration", "model_name", "ddl", "num_gpu", "duration")
NEEDS_ITP = ("cluster", "job", "submit_s", "duration_s", "num_gpu", "model_name", "num_iteration", "deadline_s")
MOST_GPUS = 64
"""The widest configuration in its throughput tables."""


def read(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS))
    for row, gpus in jobs.asking("num_gpu"):
        seconds = row.seconds("duration")
        job = Job(
            id=jobs.job_id(row.text("job_id"), "job_id"), roles=elastic_roles(gpus, MOST_GPUS),
            submit=row.number("submit_time"), seconds=seconds, deadline=row.number("ddl"),
            steps=row.count("iteration") or None, model=row.text("model_name"),
        )  # fmt: skip
        if row.has("real_duration") and row.seconds("real_duration") != seconds:
            jobs.truth[job.id] = row.seconds("real_duration")
        jobs.add(job)
    return jobs.trace("elasticflow")


def read_itp(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS_ITP))
    for row, gpus in jobs.asking("num_gpu"):
        cluster = row.text("cluster")
        jobs.add(
            Job(
                id=jobs.job_id(f"{cluster}-{row.text('job')}", "job"), roles=elastic_roles(gpus, MOST_GPUS),
                user=cluster, queue=cluster, submit=row.number("submit_s"), seconds=row.seconds("duration_s"),
                deadline=row.number("deadline_s"), steps=row.count("num_iteration") or None,
                model=row.text("model_name"),
            )
        )  # fmt: skip
    return jobs.trace("elasticflow")
