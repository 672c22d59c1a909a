"""Hydra: one-GPU jobs, all at once, with a duration per accelerator type and sometimes a deadline.

The declared seconds are those on the fastest type; `Trace.seconds_on` has all.
"""

from __future__ import annotations

from pathlib import Path

from headway.core.job import Job
from headway.workload.rows import Collector, Rows, gpu_roles
from headway.workload.trace import Trace

TYPES = ("A100", "V100", "GTX2080Ti")
NEEDS = ("job_name", "norm_job_submit_time", "ddl", *TYPES)


def read(path: Path) -> Trace:
    rows = Rows(path, NEEDS)
    jobs = Collector(rows)
    for row in rows:
        seconds_on = {kind: row.seconds(kind) for kind in TYPES}
        submit = row.number("norm_job_submit_time")
        job = Job(
            id=jobs.job_id(row.text("job_name"), "job_name"), roles=gpu_roles(1), submit=submit,
            seconds=min(seconds_on.values()),
            deadline=None if row.text("ddl") == "inf" else submit + row.seconds("ddl"),
        )  # fmt: skip
        jobs.seconds_on[job.id] = seconds_on
        jobs.add(job)
    return jobs.trace("hydra", "declared seconds are those on the fastest accelerator")
