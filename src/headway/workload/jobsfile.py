"""The jobs file: YAML with jobs, and optionally nodes and simulation settings. All three clusters take the same file.

First its fields, as users write them; then how they become jobs and nodes. An unknown field is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from headway import jobspec
from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.core.text import clean
from headway.jobspec import NAME, Number, RoleFields, Saves, SuccessFields, TargetFields, Word, Wrong, seconds
from headway.restarts import LARGEST_COUNT, RestartFields, restarts_of
from headway.workload.decode import at_line, decode
from headway.workload.errors import WorkloadError
from headway.workload.simulate_fields import SimulateFields
from headway.workload.sweeps import swept
from headway.workload.yaml_values import shortened


class RetryFields(msgspec.Struct, forbid_unknown_fields=True):
    """How often the job starts again after an error, and after which: exit codes, or texts that it printed last."""

    times: int
    on: list[int | str] = []
    not_on: list[int | str] = []


class JobFields(RoleFields, forbid_unknown_fields=True):
    """A job. A job with a single role may have the fields of the role itself."""

    name: str = ""
    user: str = ""
    queue: str = ""
    priority: int = 0
    submit: Number = 0
    deadline: Number | None = None
    steps: int | None = None
    target: TargetFields | None = None
    success: SuccessFields | None = None
    restarts: RestartFields | None = None
    retries: int | RetryFields = 0
    on_end: list[Word] = []  # noqa: RUF012  msgspec copies it
    on_failure: list[Word] = []  # noqa: RUF012
    seconds: Number | None = None
    can: list[str] | None = None
    checkpoints: bool = True
    saves: Saves = "asked"
    save_every: Number = "10m"
    fresh: bool = False
    model: str = ""
    roles: dict[str, RoleFields] = {}  # noqa: RUF012
    sweep: dict[str, list[Word] | int] = msgspec.field(name="for", default_factory=dict)


class NodeFields(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    count: int = 1
    cpu: Number | None = None
    memory: Number | None = None
    gpu: Number | None = None
    resources: dict[str, Number] = {}
    labels: dict[str, str] = {}
    taints: list[str] = []
    domain: str = ""
    accelerator: str = ""


class FileFields(msgspec.Struct, forbid_unknown_fields=True):
    jobs: list[JobFields]
    nodes: list[NodeFields] = []
    simulate: SimulateFields = msgspec.field(default_factory=SimulateFields)


T = TypeVar("T")
MOST_NODES = 1_000_000


@dataclass(frozen=True, slots=True)
class JobsFile:
    path: Path
    jobs: tuple[Job, ...]
    """In order of submission."""
    nodes: tuple[Node, ...]
    """Empty if the file names no nodes."""
    simulate: SimulateFields


def load(path: Path) -> JobsFile:
    fields = decode(path, FileFields)
    if not fields.jobs:
        raise WorkloadError(f"{path}: field jobs: there must be at least one job")
    read = [(number, job) for number, entry in enumerate(fields.jobs) for job in _jobs(path, number, entry)]
    jobs = [job for _, job in read]
    seen: dict[str, int] = {}
    for number, job in read:
        if job.id in seen:
            where = at_line(path, ("jobs", number, "name"))
            raise WorkloadError(
                f"{where}: jobs[{number}].name: two jobs are called {job.id!r} (the other is jobs[{seen[job.id]}])"
            )
        seen[job.id] = number
    jobs.sort(key=lambda job: job.submit)
    return JobsFile(path, tuple(jobs), nodes_of(path, fields.nodes), fields.simulate)


def nodes_of(path: Path, entries: list[NodeFields]) -> tuple[Node, ...]:
    """The nodes of a jobs file or a cluster file."""
    count = 0
    for number, entry in enumerate(entries):
        count += max(0, entry.count)
        if count > MOST_NODES:
            where = at_line(path, ("nodes", number, "count"))
            raise WorkloadError(f"{where}: nodes[{number}]: field count: more than {MOST_NODES} nodes are too many")
    with _with_line(path):
        nodes = [node for number, entry in enumerate(entries) for node in _nodes(path, number, entry)]
    twice = [name for name, count in Counter(node.name for node in nodes).items() if count > 1]
    if twice:
        raise WorkloadError(f"{path}: field nodes: two nodes are called {min(twice)!r}")
    return tuple(nodes)


def load_all(paths: Sequence[Path]) -> JobsFile:
    """Reads several files as one: all their jobs, on the nodes of the first file that names any."""
    files = [load(path) for path in paths]
    owner: dict[str, Path] = {}
    for file in files:
        for job in file.jobs:
            if job.id in owner:
                raise WorkloadError(f"{file.path}: job {job.id!r}: field name: {owner[job.id]} has a job of that name")
            owner[job.id] = file.path
    jobs = sorted((job for file in files for job in file.jobs), key=lambda job: job.submit)
    nodes = next((file.nodes for file in files if file.nodes), ())
    return JobsFile(files[0].path, tuple(jobs), nodes, files[0].simulate)


def _jobs(path: Path, number: int, fields: JobFields) -> list[Job]:
    where = f"{path}: job {shortened(fields.name, 60)!r}" if fields.name else f"{path}: jobs[{number}]"
    with _with_line(path, "jobs", number):
        return jobs_of(where, fields, str(path.resolve().parent))


def jobs_of(where: str, fields: JobFields, directory: str) -> list[Job]:
    """The job of an entry, or all jobs of its sweep."""
    with _naming(where):
        each = swept(fields)
    return [job_of(where, one, directory) for one in each]


def job_of(where: str, fields: JobFields, directory: str = "", roles: tuple[Role, ...] = ()) -> Job:
    """Makes a job of its fields. `where` begins every message; `roles` are those of an equal earlier job, if any."""
    if not NAME.fullmatch(fields.name):
        raise WorkloadError(
            f"{where}: field name: use 1 to 52 of a-z, 0-9 and -, beginning and ending with a letter or digit",
            ("name",),
        )
    if fields.sweep:
        raise WorkloadError(f"{where}: field for: only a jobs file may have a sweep", ("for",))
    roles = roles or _roles(where, fields)
    submit = _field(where, "submit", lambda: seconds(fields.submit))
    deadline = None
    if fields.deadline is not None:
        given = fields.deadline
        deadline = submit + _field(where, "deadline", lambda: seconds(given))
    duration = fields.seconds
    with _naming(where):
        priority, steps = jobspec.priority_of(fields.priority), jobspec.steps_of(fields.steps)
        can, target = jobspec.can_of(fields.can), jobspec.target_of(fields.target)
        success, restarts = jobspec.success_of(fields.success, roles), restarts_of(fields.restarts)
        on_end = jobspec.words("on_end", fields.on_end)
        on_failure = jobspec.words("on_failure", fields.on_failure)
        retries = _retries(fields.retries)
        saves_itself = jobspec.saves_itself(fields.saves, checkpoints=fields.checkpoints)
        save_every = jobspec.save_every_of(fields.save_every)
    return Job(
        id=JobId(fields.name), roles=roles, user=clean(fields.user), queue=clean(fields.queue), priority=priority,
        submit=submit, deadline=deadline, steps=steps, target=target,
        seconds=None if duration is None else _field(where, "seconds", lambda: seconds(duration)),
        can=can, success=success, restarts=restarts, on_end=on_end, on_failure=on_failure,
        retries=retries.times, retry_on=tuple(retries.on), retry_not_on=tuple(retries.not_on),
        checkpoints=fields.checkpoints, saves_itself=saves_itself, save_every=save_every, fresh=fields.fresh,
        model=clean(fields.model), directory=directory,
    )  # fmt: skip


def _retries(given: int | RetryFields) -> RetryFields:
    fields = RetryFields(given) if isinstance(given, int) else given
    if not 0 <= fields.times <= LARGEST_COUNT:
        name = "retries" if isinstance(given, int) else "retries.times"
        raise Wrong(name, f"must be between 0 and {LARGEST_COUNT}, not {fields.times}")
    for name, rules in (("on", fields.on), ("not_on", fields.not_on)):
        for rule in rules:
            if not (1 <= rule <= 255 if isinstance(rule, int) else rule.strip() and "\n" not in rule):
                raise Wrong(f"retries.{name}", f"must be exit codes (1 to 255) or texts of one line, not {rule!r:.40}")
    return fields


def _roles(where: str, fields: JobFields) -> tuple[Role, ...]:
    roles = []
    for name, role in (fields.roles or {"worker": _own_role(where, fields)}).items():
        with _naming(f"{where}, role {shortened(name)!r}", *(("roles", name) if fields.roles else ())):
            roles.append(jobspec.stated(jobspec.role_of(name, role, fields.command or (), fields.env)))
    with _naming(where):
        jobspec.check_roles(roles)
    return tuple(roles)


def _own_role(where: str, fields: JobFields) -> RoleFields:
    if fields.after or fields.near or fields.apart:
        raise WorkloadError(
            f"{where}: field after, near or apart: only a job with several roles may have it", ("after",)
        )
    return fields


def _nodes(path: Path, number: int, fields: NodeFields) -> list[Node]:
    where = f"{path}: nodes[{number}]"
    if fields.count < 1:
        raise WorkloadError(f"{where}: field count: must be at least 1, not {fields.count}", ("nodes", number, "count"))
    with _naming(where, "nodes", number):
        capacity = jobspec.amounts(jobspec.amounts_of(fields))
    if not capacity:
        raise WorkloadError(f"{where}: field cpu: a node must have some resource", ("nodes", number))
    base = clean(fields.name) or f"node{number}"
    names = [base] if fields.count == 1 else [f"{base}-{i}" for i in range(fields.count)]
    return [
        Node(
            name=name, capacity=capacity, labels=tuple(sorted(fields.labels.items())), taints=tuple(fields.taints),
            domain=fields.domain, accelerator=fields.accelerator,
        )
        for name in names
    ]  # fmt: skip


@contextmanager
def _naming(where: str, *steps: str | int) -> Iterator[None]:
    """Adds to the error where the wrong field is."""
    try:
        yield
    except Wrong as wrong:
        raise WorkloadError(f"{where}: field {wrong.field}: {wrong.why}", (*steps, *wrong.field.split("."))) from wrong


@contextmanager
def _with_line(path: Path, *steps: str | int) -> Iterator[None]:
    """Adds the line of the wrong field to the error."""
    try:
        yield
    except WorkloadError as error:
        where = at_line(path, (*steps, *error.steps))
        raise WorkloadError(str(error).replace(str(path), where, 1)) from error


def _field(where: str, name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        raise WorkloadError(f"{where}: field {name}: {error}", (name,)) from error
