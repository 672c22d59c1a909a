"""Microsoft's Philly: the reduced csv of the Pollux authors, with seconds, and the raw `cluster_job_log` (JSON).

In the raw log, GPUs and start are those of the last attempt, and the duration is the sum of all attempts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from headway.core.job import Job
from headway.workload.errors import WorkloadError
from headway.workload.rows import Collector, Rows, moment, opened
from headway.workload.trace import Trace, rebase

NEEDS = ("job_id", "submit_s", "duration_s", "num_gpus", "vc")


def read(path: Path) -> Trace:
    jobs = Collector(Rows(path, NEEDS))
    for row, gpus in jobs.asking("num_gpus"):
        tenant = row.text("vc")
        jobs.add(
            Job(
                id=jobs.job_id(row.text("job_id"), "job_id"), roles=jobs.roles(gpus, "num_gpus"), user=tenant,
                queue=tenant, submit=row.number("submit_s"), seconds=row.seconds("duration_s"),
            )
        )  # fmt: skip
    return jobs.trace("philly")


class Place(msgspec.Struct):
    gpus: list[str] = []


class Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[Place] = []


class RawJob(msgspec.Struct):
    jobid: str
    submitted_time: str
    vc: str | None = None
    user: str | None = None
    attempts: list[Attempt] = []


def read_raw(path: Path) -> Trace:
    """Reads the log as Microsoft publishes it. Errors name the number of the entry, not the line."""
    rows = Rows(path, ())
    jobs = Collector(rows)
    for number, raw in enumerate(_raw_jobs(path)):
        rows.line = number + 1
        last = raw.attempts[-1] if raw.attempts else Attempt()
        gpus = sum(len(place.gpus) for place in last.detail)
        seconds = sum(_seconds(rows, attempt) for attempt in raw.attempts)
        if not gpus:
            jobs.drop("were never given a GPU")
            continue
        if last.start_time in _NONE or last.end_time in _NONE:
            jobs.drop("have no recorded end")
            continue
        jobs.add(
            Job(
                id=jobs.job_id(raw.jobid, "jobid"), roles=jobs.roles(gpus, "attempts"), user=raw.user or "",
                queue=raw.vc or "",
                submit=moment(raw.submitted_time, rows, "submitted_time"), seconds=seconds,
            )
        )  # fmt: skip
    return rebase(jobs.trace("philly"))


_NONE = (None, "None", "")


def _raw_jobs(path: Path) -> Iterator[RawJob]:
    with opened(path) as text:
        try:
            yield from msgspec.json.decode(text.read(), type=list[RawJob])
        except (msgspec.DecodeError, RecursionError) as error:
            raise WorkloadError(f"{path}: not a Philly job log: {error}") from error


def _seconds(rows: Rows, attempt: Attempt) -> float:
    if attempt.start_time is None or attempt.end_time is None or "None" in (attempt.start_time, attempt.end_time):
        return 0.0
    seconds = moment(attempt.end_time, rows, "end_time") - moment(attempt.start_time, rows, "start_time")
    if seconds < 0:
        raise rows.error("end_time", "an attempt ends before it starts")
    return seconds
