"""Alibaba PAI 2020: the job extract of its simulator, and the published task table.

A share of a GPU is read as a whole GPU, and counted. In the extract, `num_gpu` is for the whole job. If the extract has
estimates, the best one (`group_gpu_dur`) is the declared duration and `duration` the true one. The task table has no
header and no submissions: a job is its tasks that request GPUs, from the first start to the last end. Users come from
`pai_job_table.csv` if it is in the same folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from headway.core.job import Job, JobId
from headway.workload.rows import NO_GPU, Collector, Rows, beside
from headway.workload.trace import Trace

NEEDS = ("job_id", "num_inst", "submit_time", "num_gpu", "gpu_type", "duration", "user")
TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
ESTIMATE = "group_gpu_dur"
_PART = "ask for a part of a GPU and were given a whole one"


def read(path: Path) -> Trace:
    rows = Rows(path, NEEDS)
    jobs = Collector(rows)
    for row in rows:
        asked = row.seconds("num_gpu") if row.text("num_gpu") else 0.0
        if not asked:
            jobs.drop(NO_GPU)
            continue
        if asked % 1:
            jobs.remarks[_PART] += 1
        true = row.seconds("duration")
        declared = row.seconds(ESTIMATE) if row.text(ESTIMATE) else true
        job = Job(
            id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(math.ceil(asked), "num_gpu"),
            user=row.text("user"), queue=row.text("group"), submit=row.number("submit_time"), seconds=declared,
        )  # fmt: skip
        if declared != true:
            jobs.truth[job.id] = true
        jobs.add(job)
    return jobs.trace("pai")


@dataclass(slots=True)
class _Sum:
    gpus: int = 0
    start: float = math.inf
    end: float = field(default=-math.inf)
    part: bool = False


def read_tasks(path: Path) -> Trace:
    rows = Rows(path, TASKS, header=TASKS)
    jobs = Collector(rows)
    sums: dict[str, _Sum] = {}
    for row in rows:
        if row.line == 1 and row.text("job_name") == "job_name":
            continue
        if not row.text("plan_gpu") or not row.number("plan_gpu"):
            jobs.drop(NO_GPU)
            continue
        if not row.text("start_time") or not row.text("end_time"):
            jobs.drop("have no recorded start or end")
            continue
        _add(row, sums.setdefault(row.text("job_name"), _Sum()))
    users = _users(path)
    for name, total in sums.items():
        if total.part:
            jobs.remarks[_PART] += 1
        jobs.add(
            Job(
                id=JobId(name), roles=jobs.roles(total.gpus, "plan_gpu"), user=users.get(name, ""),
                submit=total.start, seconds=total.end - total.start,
            )
        )  # fmt: skip
    return jobs.trace("pai", "submissions are not published: jobs are submitted when they started")


def _add(row: Rows, total: _Sum) -> None:
    each = row.seconds("plan_gpu") / 100.0
    total.gpus += math.ceil(each) * max(1, row.count("inst_num") if row.text("inst_num") else 1)
    total.part |= bool(each % 1)
    start, end = row.number("start_time"), row.number("end_time")
    if end < start:
        raise row.error("end_time", f"the task ends at {end:g}, before it starts at {start:g}")
    total.start, total.end = min(total.start, start), max(total.end, end)


def _users(path: Path) -> dict[str, str]:
    table = beside(path, "pai_job_table.csv")
    return {row.text("job_name"): row.text("user") for row in Rows(table, JOBS, header=JOBS)} if table else {}
