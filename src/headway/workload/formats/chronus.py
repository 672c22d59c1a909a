"""Chronus: strict, soft and best-effort jobs. Its times are minutes; ours are seconds.

The value of a soft job falls in steps after its submission. Its deadline is the first step; all steps are in
`Trace.expectations`. A best-effort job has no deadline, even if the row has one.
"""

from __future__ import annotations

from pathlib import Path

from headway.core.job import Job
from headway.workload.rows import Collector, Rows
from headway.workload.trace import Expectation, Trace
from headway.workload.yaml_values import shortened

NEEDS = (
    "job_id", "user", "num_gpu", "submit_time", "iterations", "model_name", "duration",
    "expect_time_list", "expect_value_list", "best_effort",
)  # fmt: skip
MINUTE = 60.0


def read(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS))
    for row, gpus in jobs.asking("num_gpu"):
        tenant = row.text("user")
        submit = row.number("submit_time") * MINUTE
        expectation = () if row.count("best_effort") else _expectation(row)
        job = Job(
            id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(gpus, "num_gpu"), user=tenant,
            queue=tenant, submit=submit, seconds=row.seconds("duration") * MINUTE,
            deadline=submit + expectation[0][0] if expectation else None,
            steps=row.count("iterations") or None, model=row.text("model_name"),
        )  # fmt: skip
        if expectation:
            jobs.expectations[job.id] = expectation
        jobs.add(job)
    return jobs.trace("chronus", "its minutes were read as seconds times 60")


def _expectation(row: Rows) -> Expectation:
    columns = []
    for field in ("expect_time_list", "expect_value_list"):
        text = row.text(field)
        try:
            columns.append([float(part) for part in text.split("-")])
        except ValueError:
            raise row.error(field, f"{shortened(text)!r} is not a list of numbers such as 159-189-229") from None
    times, values = columns
    if len(times) != len(values):
        raise row.error("expect_value_list", f"has {len(values)} values for {len(times)} times")
    return tuple(sorted((time * MINUTE, value) for time, value in zip(times, values, strict=True)))
