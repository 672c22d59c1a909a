"""Our own jobs file: YAML that says who wants to train what. The same file goes to all three clusters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from headway.core.job import Amounts, Can, Job, JobId, Role, Target, start_order
from headway.core.node import Node
from headway.core.quantity import parse
from headway.workload.errors import WorkloadError
from headway.workload.schema import (
    FileFields,
    JobFields,
    Limit,
    NodeFields,
    RoleFields,
    SimulateFields,
    TargetFields,
    amounts_of,
    seconds,
)

T = TypeVar("T")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_CAN = {flag.name.lower(): flag for flag in Can if flag.name}


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
    if not _NAME.fullmatch(fields.name):
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
    return Job(
        id=JobId(fields.name), roles=roles, user=fields.user, queue=fields.queue, priority=fields.priority,
        submit=submit, deadline=deadline, steps=fields.steps, target=_target(where, fields.target),
        seconds=None if duration is None else _field(where, "seconds", lambda: seconds(duration)),
        can=_can(where, fields.can), checkpoints=fields.checkpoints, model=fields.model,
        directory=directory,
    )  # fmt: skip


def _target(where: str, fields: TargetFields | None) -> Target | None:
    if fields is None:
        return None
    if not fields.metric or (fields.at_least is None) == (fields.at_most is None):
        raise WorkloadError(f"{where}: field target: name a metric and either at_least or at_most")
    higher = fields.at_least is not None
    value = fields.at_least if fields.at_least is not None else fields.at_most
    if value is None or not math.isfinite(value):
        raise WorkloadError(f"{where}: field target: {value} can never be reached")
    return Target(metric=fields.metric, value=value, higher=higher)


def _roles(where: str, fields: JobFields) -> tuple[Role, ...]:
    roles = tuple(
        _role(f"{where}, role {name!r}", name, role, fields)
        for name, role in (fields.roles or {"worker": _own_role(where, fields)}).items()
    )
    _check_roles(where, roles)
    return roles


def _own_role(where: str, fields: JobFields) -> RoleFields:
    if fields.after or fields.near or fields.apart:
        raise WorkloadError(f"{where}: field after, near or apart: only a job with several roles has an order")
    return fields


def _check_roles(where: str, roles: tuple[Role, ...]) -> None:
    names = {role.name for role in roles}
    for role in roles:
        for field in ("near", "apart"):
            for other in getattr(role, field):
                if other not in names:
                    raise WorkloadError(f"{where}: field roles.{role.name}.{field}: there is no role {other!r}")
    try:
        start_order(roles)
    except ValueError as error:
        raise WorkloadError(f"{where}: field roles: {error}") from error
    if sum(role.least for role in roles) < 1:
        raise WorkloadError(f"{where}: field least: a gang needs at least one replica")


def _role(where: str, name: str, fields: RoleFields, job: JobFields) -> Role:
    if not _NAME.fullmatch(name):
        raise WorkloadError(f"{where}: a role's name may have a-z, 0-9 and - only")
    least = fields.least if fields.least is not None else fields.replicas
    most = fields.most if fields.most is not None else fields.replicas
    if not 0 <= least <= fields.replicas <= most:
        raise WorkloadError(
            f"{where}: field replicas: least ({least}) <= replicas ({fields.replicas}) <= most ({most}) must hold"
        )
    request: Amounts = tuple(
        sorted((kind, _field(where, kind, lambda k=kind, v=value: parse(k, v)))  # type: ignore[misc]
               for kind, value in amounts_of(fields).items())
    )  # fmt: skip
    command = fields.command if fields.command is not None else job.command
    return Role(
        name=name, replicas=fields.replicas, least=least, most=most, request=request,
        limit=_limit(where, fields.limit, request), selector=tuple(sorted(fields.selector.items())),
        tolerates=tuple(fields.tolerates), accelerator=fields.accelerator, after=tuple(fields.after),
        near=tuple(fields.near), apart=tuple(fields.apart), restarts_alone=fields.restarts_alone,
        command=tuple(command or ()), env=tuple(sorted({**job.env, **fields.env}.items())),
    )  # fmt: skip


def _limit(where: str, fields: Limit | None, request: Amounts) -> Amounts:
    if fields is None:
        return ()
    limits = []
    for kind in ("cpu", "memory"):
        value = getattr(fields, kind)
        if value is None:
            continue
        amount = _field(where, f"limit.{kind}", lambda k=kind, v=value: parse(k, v))  # type: ignore[misc]
        if amount < dict(request).get(kind, 0):
            raise WorkloadError(f"{where}: field limit.{kind}: must not be below the request")
        limits.append((kind, amount))
    return tuple(limits)


def _nodes(path: Path, number: int, fields: NodeFields) -> list[Node]:
    where = f"{path}: nodes[{number}]"
    if fields.count < 1:
        raise WorkloadError(f"{where}: field count: must be at least 1, not {fields.count}")
    capacity: Amounts = tuple(
        sorted((kind, _field(where, kind, lambda k=kind, v=value: parse(k, v)))  # type: ignore[misc]
               for kind, value in amounts_of(fields).items())
    )  # fmt: skip
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


def _can(where: str, names: list[str] | None) -> Can:
    if names is None:
        return Can.everything()
    allowed = Can.NOTHING
    for name in names:
        if name not in _CAN:
            raise WorkloadError(f"{where}: field can: {name!r} is none of {', '.join(_CAN)}")
        allowed |= _CAN[name]
    return allowed


def _field(where: str, name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        raise WorkloadError(f"{where}: field {name}: {error}") from error
