"""Our own tables: one job per line, as csv with a header or as JSON lines.

A JSON line has the fields of a job in a jobs file (`schema.JobFields`) and `true_seconds`. A csv row has those of
`CsvFields`: one role per job. Unknown fields are errors, never silently dropped.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from headway.core.job import Job, JobId, Role
from headway.core.quantity import write
from headway.jobspec.fields import Number, RoleFields, TargetFields
from headway.jobspec.job import target_entry
from headway.workload.collect import Collector
from headway.workload.errors import WorkloadError
from headway.workload.jobsfile import job_of
from headway.workload.rows import Rows, first_line, opened
from headway.workload.schema import JobFields, seconds
from headway.workload.trace import Trace

Duration = Annotated[Number, msgspec.Meta(description="Seconds, or with a unit: 90, 90s, 5m, 1.5h, 2d.")]


class LineFields(JobFields, forbid_unknown_fields=True):
    """A job of a JSON-lines workload."""

    true_seconds: Duration | None = None


class CsvFields(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of a csv workload. Only `name` must be there; an empty cell is as a column left out."""

    name: Annotated[str, msgspec.Meta(description="1 to 52 of a-z, 0-9 and -; no two jobs have the same.")]
    submit: Annotated[Duration, msgspec.Meta(description="When it is submitted.")] = 0
    seconds: Annotated[Duration | None, msgspec.Meta(description="Training time at the asked-for size.")] = None
    true_seconds: Annotated[
        Duration | None, msgspec.Meta(description="What it really takes, where that differs; unseen by policies.")
    ] = None
    replicas: Annotated[int, msgspec.Meta(ge=1, description="Replicas asked for; all of one role, `worker`.")] = 1
    least: Annotated[int | None, msgspec.Meta(description="It never runs with fewer; `replicas` unless told.")] = None
    most: Annotated[int | None, msgspec.Meta(description="It never runs with more; `replicas` unless told.")] = None
    gpu: Annotated[Number | None, msgspec.Meta(description="GPUs per replica; 1 where neither cpu nor memory.")] = None
    cpu: Annotated[Number | None, msgspec.Meta(description="Cores per replica: 2, 1.5 or 500m.")] = None
    memory: Annotated[Number | None, msgspec.Meta(description="Memory per replica: 512Mi, 2Gi.")] = None
    user: str = ""
    queue: str = ""
    priority: int = 0
    deadline: Annotated[Duration | None, msgspec.Meta(description="Counted from the submission.")] = None
    steps: int | None = None
    model: str = ""
    accelerator: str = ""
    target_metric: Annotated[
        str | None, msgspec.Meta(description="The metric at which the job stops by itself; loss unless told.")
    ] = None
    target_at_least: Annotated[float | None, msgspec.Meta(description="It stops when the metric is so high.")] = None
    target_at_most: Annotated[float | None, msgspec.Meta(description="It stops when the metric is so low.")] = None


CSV_COLUMNS = CsvFields.__struct_fields__
_TARGET = {f"target_{name}": name for name in TargetFields.__struct_fields__}
"""Columns that are one nested field elsewhere."""


def read_lines(path: Path) -> Trace:
    rows = Rows(path, ())
    jobs = Collector(rows)
    decoder = msgspec.json.Decoder(LineFields)
    with opened(path) as text:
        for number, line in enumerate(text, 1):
            rows.line = number
            if not line.strip():
                continue
            try:
                fields = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise rows.error("", _sentence(error)) from error
            _add(jobs, fields)
    return jobs.trace("jsonl")


def read_csv(path: Path) -> Trace:
    rows = Rows(path, ("name",))
    jobs = Collector(rows)
    _check_header(path)
    for row in rows:
        try:
            fields = msgspec.convert(row.filled(), CsvFields, strict=False)
        except msgspec.ValidationError as error:
            raise row.error("", _sentence(error)) from error
        if fields.gpu is None and fields.cpu is None and fields.memory is None:
            fields.gpu = 1
        plain = {name: getattr(fields, name) for name in CSV_COLUMNS if name not in _TARGET}
        _add(jobs, LineFields(**plain, target=_target(row, fields)))
    return jobs.trace("csv")


def _target(row: Rows, fields: CsvFields) -> TargetFields | None:
    given = {column: value for column in _TARGET if (value := getattr(fields, column)) is not None}
    if not given:
        return None
    values = [column for column in given if column != "target_metric"]
    if len(values) != 1:
        raise row.error(next(iter(given)), "name a metric and either target_at_least or target_at_most")
    if not math.isfinite(given[values[0]]):
        raise row.error(values[0], f"{given[values[0]]} can never be reached")
    return TargetFields(**{_TARGET[column]: value for column, value in given.items()})


def _check_header(path: Path) -> None:
    header = [name.strip() for name in next(csv.reader([first_line(path)]), [])]
    unknown = [name for name in header if name not in CSV_COLUMNS]
    if unknown:
        raise WorkloadError(f"{path}, line 1: field {unknown[0]}: no such column; there are {', '.join(CSV_COLUMNS)}")


def _sentence(error: msgspec.DecodeError) -> str:
    what, _, where = str(error).replace("`", "'").partition(" - at ")
    return f"field {where.replace('$.', '').strip(chr(39))}: {what}" if where.startswith("'$.") else what


def _add(jobs: Collector, fields: LineFields) -> None:
    key = _role_key(fields)
    job = job_of(f"{jobs.rows.path}, line {jobs.rows.line}", fields, roles=jobs.known_roles.get(key, ()))
    if not any(amount for role in job.roles for _, amount in role.request):
        raise jobs.rows.error("gpu", "the job asks for no resource at all")
    jobs.known_roles[key] = job.roles
    jobs.job_id(job.id, "name")
    if fields.true_seconds is not None:
        try:
            jobs.truth[JobId(job.id)] = seconds(fields.true_seconds)
        except ValueError as error:
            raise jobs.rows.error("true_seconds", str(error)) from error
    jobs.add(job)


def _role_key(fields: LineFields) -> bytes:
    """Equal for jobs whose roles are equal: many jobs, few shapes, each checked and made once."""
    return _ENCODER.encode([getattr(fields, name) for name in _ROLE_FIELDS])


_ROLE_FIELDS = (*RoleFields.__struct_fields__, "roles")
_ENCODER = msgspec.msgpack.Encoder()


def csv_row(job: Job, true_seconds: float | None) -> list[str]:
    """The job as a row in the order of `CSV_COLUMNS`; the caller sees to it that a row can hold it."""
    given = dict(_cells(job, job.roles[0], true_seconds))
    return [given.get(name, "") for name in CSV_COLUMNS]


def _cells(job: Job, role: Role, true_seconds: float | None) -> Iterator[tuple[str, str]]:
    yield "name", job.id
    yield "submit", repr(job.submit)
    for name, value in (("seconds", job.seconds), ("true_seconds", true_seconds)):
        if value is not None:
            yield name, repr(value)
    yield "replicas", str(role.replicas)
    yield "least", str(role.least)
    yield "most", str(role.most)
    for kind, amount in role.request:
        yield kind, write(kind, amount)
    yield from (("user", job.user), ("queue", job.queue), ("priority", str(job.priority)))
    if job.deadline is not None:
        yield "deadline", repr(round(job.deadline - job.submit, 6))
    yield "steps", str(job.steps or "")
    yield from (("model", job.model), ("accelerator", role.accelerator))
    if job.target is not None:
        yield from ((f"target_{name}", str(value)) for name, value in target_entry(job.target).items())
