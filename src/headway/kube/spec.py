"""A TrainingJob's spec and our `Job`: two spellings of the same thing, and the way between them. Pure.

The fields are those of a jobs file; durations are seconds. `template` is Kubernetes' own, a pod template of which any
part may be left out; the container named `main` is the one that trains.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headway.core.job import Amounts, Can, Job, JobId, Role, Target, start_order
from headway.core.quantity import CPU, GPU, MEMORY, QuantityError, parse, write
from headway.kube.objects import API_VERSION, KIND, SUBMITTED, TrainingJob, unix

Number = int | float | str
_CAN = {flag.name.lower(): flag for flag in Can if flag.name}
_KINDS = (CPU, MEMORY, GPU)


class SpecError(ValueError):
    """A spec that cannot be used; its message is a sentence that names the field."""


class LimitSpec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    cpu: Number | None = None
    memory: Number | None = None


class RoleSpec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    replicas: int = 1
    least: int | None = None
    most: int | None = None
    cpu: Number | None = None
    memory: Number | None = None
    gpu: Number | None = None
    resources: dict[str, Number] = {}
    limit: LimitSpec | None = None
    selector: dict[str, str] = {}
    tolerates: list[str] = []
    accelerator: str = ""
    after: list[str] = []
    near: list[str] = []
    apart: list[str] = []
    restarts_alone: bool = False
    command: list[str] = []
    env: dict[str, str] = {}


class TargetSpec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """At least or at most so much of a metric that it reports: there it stops by itself."""

    metric: str = "loss"
    at_least: float | None = None
    at_most: float | None = None


class JobSpec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    roles: dict[str, RoleSpec]
    user: str = ""
    queue: str = ""
    priority: int = 0
    deadline: float | None = None
    """Seconds after submission."""
    steps: int | None = None
    target: TargetSpec | None = None
    seconds: float | None = None
    can: list[str] | None = None
    checkpoints: bool = True
    model: str = ""
    directory: str = ""
    template: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(JobSpec)


def job_id(namespace: str, name: str) -> JobId:
    """As people say it: the bare name in the default namespace, `team/name` elsewhere."""
    return JobId(name if namespace == "default" else f"{namespace}/{name}")


def read_spec(raw: bytes) -> JobSpec:
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise SpecError(f"spec: {str(error).replace('`', chr(39)).replace('$.', 'spec.')}") from error


def job_of(found: TrainingJob, spec: JobSpec, began: float) -> Job:
    """The job that a TrainingJob asks for, on a clock that showed zero at `began`."""
    meta = found.metadata
    if not spec.roles:
        raise SpecError("spec.roles: there must be at least one role")
    submit = submitted(found) - began
    roles = tuple(_role(name, role) for name, role in spec.roles.items())
    try:
        start_order(roles)
    except ValueError as error:
        raise SpecError(f"spec.roles: {error}") from error
    if sum(role.least for role in roles) < 1:
        raise SpecError("spec.roles: a gang needs at least one replica")
    return Job(
        id=job_id(meta.namespace, meta.name), roles=roles, user=spec.user, queue=spec.queue,
        priority=spec.priority, submit=submit,
        deadline=None if spec.deadline is None else submit + spec.deadline,
        steps=spec.steps, target=_target(spec.target), seconds=spec.seconds, can=_can(spec.can),
        checkpoints=spec.checkpoints, model=spec.model, directory=spec.directory,
    )  # fmt: skip


def submitted(found: TrainingJob) -> float:
    """Seconds since 1970. The server knows whole seconds; the sender's own word counts inside that second."""
    created = unix(found.metadata.creationTimestamp)
    try:
        told = float(found.metadata.annotations.get(SUBMITTED, ""))
    except ValueError:
        return created
    return told if created <= told < created + 1 else created


def _role(name: str, spec: RoleSpec) -> Role:
    least = spec.replicas if spec.least is None else spec.least
    most = spec.replicas if spec.most is None else spec.most
    if not 0 <= least <= spec.replicas <= most:
        raise SpecError(
            f"spec.roles.{name}.replicas: least ({least}) <= replicas ({spec.replicas}) <= most ({most}) must hold"
        )
    named = {kind: value for kind in _KINDS if (value := getattr(spec, kind)) is not None}
    limit = {} if spec.limit is None else {CPU: spec.limit.cpu, MEMORY: spec.limit.memory}
    return Role(
        name=name, replicas=spec.replicas, least=least, most=most,
        request=_amounts(f"spec.roles.{name}", spec.resources | named),
        limit=_amounts(f"spec.roles.{name}.limit", {k: v for k, v in limit.items() if v is not None}),
        selector=tuple(sorted(spec.selector.items())), tolerates=tuple(spec.tolerates),
        accelerator=spec.accelerator, after=tuple(spec.after), near=tuple(spec.near), apart=tuple(spec.apart),
        restarts_alone=spec.restarts_alone, command=tuple(spec.command), env=tuple(sorted(spec.env.items())),
    )  # fmt: skip


def _target(spec: TargetSpec | None) -> Target | None:
    if spec is None:
        return None
    value = spec.at_most if spec.at_least is None else spec.at_least
    if value is None or (spec.at_least is not None and spec.at_most is not None):
        raise SpecError("spec.target: name a metric and either atLeast or atMost")
    return Target(metric=spec.metric, value=value, higher=spec.at_least is not None)


def _amounts(where: str, given: dict[str, Number]) -> Amounts:
    try:
        return tuple(sorted((kind, parse(kind, value)) for kind, value in given.items()))
    except QuantityError as error:
        raise SpecError(f"{where}: {error}") from error


def _can(names: list[str] | None) -> Can:
    if names is None:
        return Can.everything()
    allowed = Can.NOTHING
    for name in names:
        if name not in _CAN:
            raise SpecError(f"spec.can: {name!r} is none of {', '.join(_CAN)}")
        allowed |= _CAN[name]
    return allowed


def manifest_of(job: Job, namespace: str, *, directory: str = "", submitted_at: float | None = None) -> Any:
    """The TrainingJob that asks for this job; the inverse of `job_of`."""
    spec = JobSpec(
        roles={role.name: _role_spec(role) for role in job.roles},
        user=job.user, queue=job.queue, priority=job.priority,
        deadline=None if job.deadline is None else job.deadline - job.submit,
        steps=job.steps, target=_target_spec(job.target), seconds=job.seconds,
        can=None if job.can == Can.everything() else [name for name, flag in _CAN.items() if flag in job.can],
        checkpoints=job.checkpoints, model=job.model, directory=directory,
    )  # fmt: skip
    metadata: dict[str, Any] = {"name": job.id, "namespace": namespace}
    if submitted_at is not None:
        metadata["annotations"] = {SUBMITTED: f"{submitted_at:.6f}"}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def _target_spec(target: Target | None) -> TargetSpec | None:
    if target is None:
        return None
    return TargetSpec(target.metric, **{"at_least" if target.higher else "at_most": target.value})


def _role_spec(role: Role) -> RoleSpec:
    written = {kind: write(kind, amount) for kind, amount in role.request}
    limit = {kind: write(kind, amount) for kind, amount in role.limit}
    return RoleSpec(
        replicas=role.replicas, least=role.least, most=role.most,
        cpu=written.pop(CPU, None), memory=written.pop(MEMORY, None), gpu=written.pop(GPU, None),
        resources=dict(written), limit=LimitSpec(limit.get(CPU), limit.get(MEMORY)) if limit else None,
        selector=dict(role.selector), tolerates=list(role.tolerates), accelerator=role.accelerator,
        after=list(role.after), near=list(role.near), apart=list(role.apart),
        restarts_alone=role.restarts_alone, command=list(role.command), env=dict(role.env),
    )  # fmt: skip
