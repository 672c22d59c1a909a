"""Converts a TrainingJob's spec to a `Job` and back. Pure.

The fields are those of a jobs file, in Kubernetes' camel case; durations are seconds. `template` is a Kubernetes pod
template, any part of which may be left out. The container named `main` trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headway.core.job import SAVE_EVERY_SECONDS, Job, JobId, Role
from headway.core.text import clean
from headway.jobspec import (
    LONGEST,
    Limit,
    RoleFields,
    Saves,
    SuccessFields,
    TargetFields,
    Wrong,
    can_entry,
    can_of,
    check_roles,
    priority_of,
    role_entry,
    role_of,
    saves_itself,
    steps_of,
    success_entry,
    success_of,
    target_entry,
    target_of,
    with_cpu,
)
from headway.kube.api.objects import API_VERSION, KIND, MOST_LEVELS, SUBMITTED, TrainingJob, is_deeper, unix
from headway.kube.pods.body import TemplateError, check_template, merge, names_resources
from headway.restarts import RestartFields, restarts_entry, restarts_of

_CAMEL = {"at_least": "atLeast", "at_most": "atMost"}
_SNAKE = {camel: snake for snake, camel in _CAMEL.items()}


class SpecError(ValueError):
    """The spec is invalid. The message is a sentence that names the field."""


class JobSpec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    roles: dict[str, RoleFields]
    user: str = ""
    queue: str = ""
    priority: int = 0
    deadline: float | None = None
    """Seconds after submission."""
    steps: int | None = None
    target: TargetFields | None = None
    success: SuccessFields | None = None
    restarts: RestartFields | None = None
    seconds: float | None = None
    can: list[str] | None = None
    checkpoints: bool = True
    saves: Saves = "asked"
    save_every: float = msgspec.field(name="saveEvery", default=SAVE_EVERY_SECONDS)
    """Seconds; 0: only before it is stopped or moved."""
    model: str = ""
    directory: str = ""
    suspend: bool = False
    cancel: bool = False
    ttl_after_finished: float | None = msgspec.field(name="ttlSecondsAfterFinished", default=None)
    template: dict[str, Any] = {}


def job_id(namespace: str, name: str) -> JobId:
    """The name alone in the default namespace, `team/name` in others."""
    return JobId(name if namespace == "default" else f"{namespace}/{name}")


def read_spec(raw: bytes, *, tolerant: bool = False) -> JobSpec:
    """Raises SpecError. `tolerant`: fields that this version does not know are left out; what trains goes on."""
    if is_deeper(bytes(raw)):
        raise SpecError(f"spec: is nested deeper than {MOST_LEVELS} levels")
    try:
        given = msgspec.json.decode(raw)
        if isinstance(given, dict):
            given = given | {key: _renamed(given[key], _SNAKE) for key in ("roles", "target") if key in given}
        spec = msgspec.convert(_known(given) if tolerant else given, JobSpec)
        check_template(spec.template)
    except TemplateError as error:
        raise SpecError(f"spec.template.{error}") from error
    except msgspec.MsgspecError as error:
        raise SpecError(f"spec: {str(error).replace('`', chr(39)).replace('$.', 'spec.')}") from error
    return spec


_PARTS: dict[str, type] = {"target": TargetFields, "success": SuccessFields, "restarts": RestartFields, "limit": Limit}


def _known(given: Any, kind: type = JobSpec) -> Any:
    """The fields that this kind has, also in its parts."""
    if not isinstance(given, dict):
        return given
    names = {field.encode_name for field in msgspec.structs.fields(kind)}
    kept = {name: value for name, value in given.items() if name in names}
    for name, value in kept.items():
        if name == "roles" and isinstance(value, dict):
            kept[name] = {role: _known(fields, RoleFields) for role, fields in value.items()}
        elif name in _PARTS:
            kept[name] = _known(value, _PARTS[name])
    return kept


def job_of(found: TrainingJob, spec: JobSpec, began: float, template: Mapping[str, Any] | None = None) -> Job:
    """The job of a TrainingJob, on the cluster's clock, which was zero at `began`. `template` is the cluster's.

    A role that names neither cpu nor memory, nor do the templates for it, counts as one core until it was measured.
    """
    meta = found.metadata
    if not spec.roles:
        raise SpecError("spec.roles: there must be at least one role")
    times = {
        "deadline": spec.deadline,
        "seconds": spec.seconds,
        "saveEvery": spec.save_every,
        "ttlSecondsAfterFinished": spec.ttl_after_finished,
    }
    for name, value in times.items():
        if value is not None and not 0 <= value <= LONGEST:
            raise SpecError(f"spec.{name}: must be between 0 and {LONGEST:g} seconds, not {value:g}")
    submit = submitted(found) - began
    roles = tuple(_role(name, role) for name, role in spec.roles.items())
    if not names_resources(merge(template or {}, spec.template)):
        roles = tuple(map(with_cpu, roles))
    try:
        check_roles(roles)
        priority_of(spec.priority), steps_of(spec.steps)
        can, target, success = can_of(spec.can), target_of(spec.target), success_of(spec.success, roles)
        restarts = restarts_of(spec.restarts)
        itself = saves_itself(spec.saves, checkpoints=spec.checkpoints)
    except Wrong as wrong:
        raise SpecError(f"spec.{wrong}") from wrong
    return Job(
        id=job_id(meta.namespace, meta.name), roles=roles, user=clean(spec.user), queue=clean(spec.queue),
        priority=spec.priority, submit=submit,
        deadline=None if spec.deadline is None else submit + spec.deadline,
        steps=spec.steps, target=target, seconds=spec.seconds, can=can, success=success, restarts=restarts,
        checkpoints=spec.checkpoints, saves_itself=itself, save_every=spec.save_every, model=clean(spec.model),
        directory=spec.directory,
    )  # fmt: skip


def _role(name: str, fields: RoleFields) -> Role:
    try:
        return role_of(name, fields)
    except Wrong as wrong:
        raise SpecError(f"spec.roles.{name}.{wrong}") from wrong


def _renamed(thing: Any, names: dict[str, str]) -> Any:
    """The same map with these keys renamed, also in the maps in it."""
    if not isinstance(thing, dict):
        return thing
    return {
        names.get(key, key): {names.get(inner, inner): one for inner, one in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in thing.items()
    }


def submitted(found: TrainingJob) -> float:
    """The submit time as Unix time. The server has whole seconds; the annotation counts if it is in the same second."""
    created = unix(found.metadata.creationTimestamp)
    try:
        exact = float(found.metadata.annotations.get(SUBMITTED, ""))
    except ValueError:
        return created
    return exact if created <= exact < created + 1 else created


def manifest_of(job: Job, namespace: str, *, directory: str = "", submitted_at: float | None = None) -> Any:
    """The TrainingJob of a job; the inverse of `job_of`."""
    spec = JobSpec(
        roles={},
        user=job.user, queue=job.queue, priority=job.priority,
        deadline=None if job.deadline is None else job.deadline - job.submit,
        steps=job.steps, seconds=job.seconds, can=can_entry(job.can),
        checkpoints=job.checkpoints, saves="itself" if job.saves_itself else "asked", save_every=job.save_every,
        model=job.model,
        directory=directory,
    )  # fmt: skip
    written: dict[str, Any] = msgspec.to_builtins(spec)
    written["roles"] = _renamed({role.name: role_entry(role) for role in job.roles}, _CAMEL)
    if job.target is not None:
        written["target"] = _renamed(target_entry(job.target), _CAMEL)
    if success := success_entry(job.success):
        written["success"] = success
    if restarts := restarts_entry(job.restarts):
        written["restarts"] = restarts
    metadata: dict[str, Any] = {"name": job.id, "namespace": namespace}
    if submitted_at is not None:
        metadata["annotations"] = {SUBMITTED: f"{submitted_at:.6f}"}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": written,
    }
