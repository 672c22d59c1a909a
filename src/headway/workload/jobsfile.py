"""Our own jobs file: YAML that says who wants to train what. The same file goes to all three clusters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.jobspec.fields import RoleFields, amounts_of
from headway.jobspec.job import NAME, Wrong, amounts, can_of, check_roles, role_of, success_of, target_of
from headway.workload.errors import WorkloadError
from headway.workload.schema import FileFields, JobFields, NodeFields, SimulateFields, seconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobsFile:
    path: Path
    jobs: tuple[Job, ...]
    """In the order in which they are submitted."""
    nodes: tuple[Node, ...]
    """Empty where the file leaves the cluster to the command."""
    simulate: SimulateFields


def load(path: Path) -> JobsFile:
    fields = _decode(path)
    if not fields.jobs:
        raise WorkloadError(f"{path}: field jobs: there must be at least one job")
    jobs = [_job(path, number, job) for number, job in enumerate(fields.jobs)]
    seen: dict[str, int] = {}
    for number, job in enumerate(jobs):
        if job.id in seen:
            raise WorkloadError(
                f"{path}: jobs[{number}].name: two jobs are called {job.id!r} (the other is jobs[{seen[job.id]}])"
            )
        seen[job.id] = number
    jobs.sort(key=lambda job: job.submit)
    return JobsFile(path, tuple(jobs), nodes_of(path, fields.nodes), fields.simulate)


def nodes_of(path: Path, entries: list[NodeFields]) -> tuple[Node, ...]:
    """The nodes of a jobs file or a cluster file."""
    nodes = [node for number, entry in enumerate(entries) for node in _nodes(path, number, entry)]
    twice = [name for name, count in Counter(node.name for node in nodes).items() if count > 1]
    if twice:
        raise WorkloadError(f"{path}: field nodes: two nodes are called {min(twice)!r}")
    return tuple(nodes)


def load_all(paths: Sequence[Path]) -> JobsFile:
    """Several files as one: their jobs together, on the nodes of the first that names any."""
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


def _decode(path: Path) -> FileFields:
    return decode(path, FileFields)


def decode(path: Path, kind: type[T]) -> T:
    """A YAML file as these fields, or one sentence on what is wrong with it."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return msgspec.yaml.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise WorkloadError(f"{path}: {_named(text, str(error))}") from error
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise WorkloadError(f"{path}{_misspelt(text)}") from error


def _misspelt(text: bytes) -> str:
    """Where and why this is no YAML."""
    try:
        yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return f"{where}: not valid YAML: {error.problem}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f": not valid YAML: {' '.join(str(error).split())}"
    return ": not valid YAML"


def _named(text: bytes, message: str) -> str:
    """The job's name beside its number, where the message has a number."""
    sentence = message.replace("`", "'").replace("$.", "").replace(" - at ", " at ")
    found = re.search(r"jobs\[(\d+)\]", message)
    if not found:
        return sentence
    try:
        name = yaml.safe_load(text)["jobs"][int(found.group(1))].get("name")
    except (yaml.YAMLError, KeyError, IndexError, TypeError, AttributeError):
        return sentence
    return f"job {name!r}: {sentence}" if name else sentence


def _job(path: Path, number: int, fields: JobFields) -> Job:
    where = f"{path}: job {fields.name!r}" if fields.name else f"{path}: jobs[{number}]"
    return job_of(where, fields, str(path.resolve().parent))


def job_of(where: str, fields: JobFields, directory: str = "", roles: tuple[Role, ...] = ()) -> Job:
    """Checks one job's fields; `where` begins every complaint. Roles may be given that were made of equal fields."""
    if not NAME.fullmatch(fields.name):
        raise WorkloadError(
            f"{where}: field name: use 1 to 52 of a-z, 0-9 and -, beginning and ending with a letter or digit"
        )
    roles = roles or _roles(where, fields)
    submit = _field(where, "submit", lambda: seconds(fields.submit))
    deadline = None
    if fields.deadline is not None:
        given = fields.deadline
        deadline = submit + _field(where, "deadline", lambda: seconds(given))
    duration = fields.seconds
    if fields.steps is not None and fields.steps < 1:
        raise WorkloadError(f"{where}: field steps: must be at least 1, not {fields.steps}")
    with _told(where):
        can, target, success = can_of(fields.can), target_of(fields.target), success_of(fields.success, roles)
    return Job(
        id=JobId(fields.name), roles=roles, user=fields.user, queue=fields.queue, priority=fields.priority,
        submit=submit, deadline=deadline, steps=fields.steps, target=target,
        seconds=None if duration is None else _field(where, "seconds", lambda: seconds(duration)),
        can=can, success=success, checkpoints=fields.checkpoints, model=fields.model,
        directory=directory,
    )  # fmt: skip


def _roles(where: str, fields: JobFields) -> tuple[Role, ...]:
    roles = []
    for name, role in (fields.roles or {"worker": _own_role(where, fields)}).items():
        with _told(f"{where}, role {name!r}"):
            roles.append(role_of(name, role, fields.command or (), fields.env))
    with _told(where):
        check_roles(roles)
    return tuple(roles)


def _own_role(where: str, fields: JobFields) -> RoleFields:
    if fields.after or fields.near or fields.apart:
        raise WorkloadError(f"{where}: field after, near or apart: only a job with several roles has an order")
    return fields


def _nodes(path: Path, number: int, fields: NodeFields) -> list[Node]:
    where = f"{path}: nodes[{number}]"
    if fields.count < 1:
        raise WorkloadError(f"{where}: field count: must be at least 1, not {fields.count}")
    with _told(where):
        capacity = amounts(amounts_of(fields))
    if not capacity:
        raise WorkloadError(f"{where}: field cpu: a node must have some resource")
    base = fields.name or f"node{number}"
    names = [base] if fields.count == 1 else [f"{base}-{i}" for i in range(fields.count)]
    return [
        Node(
            name=name, capacity=capacity, labels=tuple(sorted(fields.labels.items())), taints=tuple(fields.taints),
            domain=fields.domain, accelerator=fields.accelerator,
        )
        for name in names
    ]  # fmt: skip


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Says where the wrong field stands."""
    try:
        yield
    except Wrong as wrong:
        raise WorkloadError(f"{where}: field {wrong.field}: {wrong.why}") from wrong


def _field(where: str, name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        raise WorkloadError(f"{where}: field {name}: {error}") from error
