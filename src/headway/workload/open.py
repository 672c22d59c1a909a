"""Opens every workload file: finds its format and reads its jobs.

Our own tables are read here: one job per line, as csv with a header or as JSON lines. A JSON line has the fields of a
job in a jobs file (`jobsfile.JobFields`) and `true_seconds`. A csv row has the fields of `CsvFields`: one role per job.
An unknown field is an error.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from headway.core.job import JobId
from headway.jobspec import Number, RoleFields, TargetFields, meant, seconds
from headway.workload.decode import explained
from headway.workload.errors import WorkloadError
from headway.workload.formats import (
    acme,
    chronus,
    elasticflow,
    gavel,
    helios,
    hydra,
    openb,
    pai,
    philly,
    pollux,
    tiresias,
)
from headway.workload.jobsfile import JobFields, job_of, load
from headway.workload.rows import Collector, Rows, bare_name, first_line, opened, stem
from headway.workload.trace import Trace
from headway.workload.yaml_values import shortened

Duration = Annotated[Number, msgspec.Meta(description="Seconds, or with a unit: 90, 90s, 5m, 1.5h, 2d.")]


class LineFields(JobFields, forbid_unknown_fields=True):
    """A job of a JSON-lines workload."""

    true_seconds: Duration | None = None


class CsvFields(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of a csv workload. Only `name` is required; an empty cell is the same as no column."""

    name: Annotated[str, msgspec.Meta(description="1 to 52 of a-z, 0-9 and -; unique.")]
    submit: Annotated[Duration, msgspec.Meta(description="Time of submission.")] = 0
    seconds: Annotated[Duration | None, msgspec.Meta(description="Declared training time at the requested size.")] = (
        None
    )
    true_seconds: Annotated[
        Duration | None, msgspec.Meta(description="True training time, if it differs; hidden from policies.")
    ] = None
    replicas: Annotated[int, msgspec.Meta(ge=1, description="Requested replicas, all of the role `worker`.")] = 1
    min: Annotated[int | None, msgspec.Meta(description="Min replicas; default: `replicas`.")] = None
    max: Annotated[int | None, msgspec.Meta(description="Max replicas; default: `replicas`.")] = None
    gpu: Annotated[Number | None, msgspec.Meta(description="GPUs per replica; default: 1 without cpu and memory.")] = (
        None
    )
    cpu: Annotated[Number | None, msgspec.Meta(description="Cores per replica: 2, 1.5 or 500m.")] = None
    memory: Annotated[Number | None, msgspec.Meta(description="Memory per replica: 512Mi, 2Gi.")] = None
    user: str = ""
    queue: str = ""
    priority: int = 0
    deadline: Annotated[Duration | None, msgspec.Meta(description="Seconds after the submission, or with a unit.")] = (
        None
    )
    steps: int | None = None
    model: str = ""
    accelerator: str = ""
    target_metric: Annotated[
        str | None, msgspec.Meta(description="The metric by which the job stops itself; default: loss.")
    ] = None
    target_at_least: Annotated[
        float | None, msgspec.Meta(description="The job stops when the metric is at least this.")
    ] = None
    target_at_most: Annotated[
        float | None, msgspec.Meta(description="The job stops when the metric is at most this.")
    ] = None


CSV_COLUMNS = CsvFields.__struct_fields__
_TARGET = {f"target_{name}": name for name in TargetFields.__struct_fields__}
"""Columns that are fields of `target` in other formats."""


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
            except msgspec.ValidationError as error:
                raise rows.error("", explained(error, _loosely(line), LineFields)[1]) from error
            except (msgspec.DecodeError, RecursionError) as error:
                raise rows.error("", str(error)) from error
            _add(jobs, fields)
    return jobs.trace("jsonl")


def _loosely(line: str) -> object:
    """The line without a schema, for the error message; None where even that fails."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def read_csv(path: Path) -> Trace:
    rows = Rows(path, ("name",))
    jobs = Collector(rows)
    _check_header(path)
    for row in rows:
        try:
            fields = msgspec.convert(row.filled(), CsvFields, strict=False)
        except msgspec.ValidationError as error:
            raise row.error("", explained(error, row.filled(), CsvFields)[1]) from error
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
        name = shortened(unknown[0])
        raise WorkloadError(f"{path}, line 1: field {name}: no such column{meant(name, CSV_COLUMNS)}")


def _add(jobs: Collector, fields: LineFields) -> None:
    key = _role_key(fields)
    job = job_of(f"{jobs.rows.path}, line {jobs.rows.line}", fields, roles=jobs.known_roles.get(key, ()))
    if not any(amount for role in job.roles for _, amount in role.request):
        raise jobs.rows.error("gpu", "the job requests no resource")
    jobs.known_roles[key] = job.roles
    jobs.job_id(job.id, "name")
    if fields.true_seconds is not None:
        try:
            jobs.truth[JobId(job.id)] = seconds(fields.true_seconds)
        except ValueError as error:
            raise jobs.rows.error("true_seconds", str(error)) from error
    jobs.add(job)


def _role_key(fields: LineFields) -> bytes:
    """Equal for jobs with equal roles: many jobs have few shapes, and each is checked and made once."""
    values = [getattr(fields, name) for name in _ROLE_FIELDS]
    try:
        return _ENCODER.encode(values)
    except (OverflowError, UnicodeEncodeError):  # a number or a text that the check of the role will refuse
        return repr(values).encode(errors="backslashreplace")


_ROLE_FIELDS = (*RoleFields.__struct_fields__, "roles")
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Format:
    read: Callable[[Path], Trace]
    about: str
    needs: tuple[str, ...] = ()
    """The columns that identify a csv file of this format."""
    endings: tuple[str, ...] = ()
    """The endings of the name, without .gz, that identify other files."""


def _jobsfile(path: Path) -> Trace:
    found = load(path)
    return Trace(name=f"yaml/{stem(path)}", jobs=found.jobs, nodes=found.nodes, simulate=found.simulate)


FORMATS: dict[str, Format] = {
    "yaml": Format(_jobsfile, "our own jobs file", endings=(".yaml", ".yml")),
    "jsonl": Format(read_lines, "our own, one job per line as JSON", endings=(".jsonl",)),
    "csv": Format(read_csv, "our own, one job per row", ("name", "submit", "seconds")),
    "philly": Format(philly.read, "Microsoft Philly, reduced to seconds", philly.NEEDS),
    "philly-log": Format(philly.read_raw, "Microsoft Philly, the raw log", endings=("cluster_job_log", "job_log.json")),
    "itp": Format(elasticflow.read_itp, "Microsoft ITP with ElasticFlow's deadlines", elasticflow.NEEDS_ITP),
    "elasticflow": Format(elasticflow.read, "ElasticFlow's own form", elasticflow.NEEDS),
    "chronus": Format(chronus.read, "Chronus, in minutes", chronus.NEEDS),
    "pollux": Format(pollux.read, "Pollux and Sia", pollux.NEEDS),
    "tiresias": Format(tiresias.read, "Tiresias", tiresias.NEEDS),
    "gavel": Format(gavel.read, "Gavel and Shockwave", endings=(".trace",)),
    "openb": Format(openb.read, "Alibaba openb pods, with nodes if their list is in the same folder", openb.NEEDS),
    "helios": Format(helios.read, "SenseTime Helios", helios.NEEDS),
    "lucid": Format(helios.read_lucid, "Lucid: Helios with models", helios.NEEDS_LUCID),
    "acme": Format(acme.read, "Shanghai AI Lab Acme (Seren, Kalos)", acme.NEEDS),
    "acme-converted": Format(acme.read_converted, "Acme with iterations", acme.NEEDS_CONVERTED),
    "pai": Format(pai.read, "Alibaba PAI, the job extract", pai.NEEDS),
    "pai-tasks": Format(pai.read_tasks, "Alibaba PAI, the task table", endings=("pai_task_table.csv",)),
    "hydra": Format(hydra.read, "Hydra, durations per accelerator", hydra.NEEDS),
}


def open_workload(path: Path, format: str = "") -> Trace:  # noqa: A002  the name of the option
    """Reads any workload. Without a format, the name of the file or the columns of its header decide."""
    name = format or guess(path)
    if name not in FORMATS:
        raise WorkloadError(f"--format {name}: there is no such format; choose one of {', '.join(FORMATS)}")
    return FORMATS[name].read(path)


def guess(path: Path) -> str:
    """Returns the name of the format. If several match, the one with most required columns."""
    bare = bare_name(path)
    for name, form in FORMATS.items():
        if form.endings and bare.endswith(form.endings):
            return name
    line = first_line(path)
    if not line.strip():
        raise WorkloadError(f"{path}: the file is empty")
    header = {cell.strip() for cell in next(csv.reader([line]), [])}
    fitting = [(len(form.needs), name) for name, form in FORMATS.items() if form.needs and header >= set(form.needs)]
    if not fitting and "name" in header and 2 * len(header - set(CSV_COLUMNS)) <= len(header):
        return "csv"
    if not fitting:
        raise WorkloadError(
            f"{path}: the format is not clear from name and header; give --format, one of {', '.join(FORMATS)}"
        )
    return max(fitting)[1]
