"""The pod of one replica, as it is sent to the API server. Pure.

A pod template has Kubernetes' own format; any part may be left out. The cluster's template comes first, then the job's,
then what Headway decides: command, environment, resources, node, and the job's own folder of the checkpoint volume.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from headway.core.job import Amounts, Can, Job, Role
from headway.core.quantity import CPU, GPU, MEMORY, write
from headway.core.suits import ANY, read_mark
from headway.kube.api.objects import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOB, LABEL_ROLE, PLANNED_NODE, SCHEDULER, Meta
from headway.kube.gangs.model import Create, PodAction, Publish, Release, ResizePod
from headway.kube.intake.template_rules import NAMED_LISTS
from headway.kube.pods.checkpoints import checkpoint_folder, narrow
from headway.kube.pods.hosts import PORT, hostname, indexed, owner, service_of
from headway.kube.pods.marks import read_pod_name
from headway.kube.pods.replica import MAIN
from headway.kube.settings import PodDefaults
from headway.rendezvous import Rendezvous, variables

Hosts = tuple[tuple[str, tuple[str, ...]], ...]
"""Of every role: where its replicas may listen."""


def pod_of(create: Create, job: Job, meta: Meta, own: Mapping[str, Any], defaults: PodDefaults) -> dict[str, Any]:
    """The body of the pod; `own` is the job's template."""
    template = merge(defaults.template, own)
    written = {name: value for name, value in (template.get("spec") or {}).items() if value is not None}
    spec = merge({"containers": [{"name": MAIN}]}, written)
    main = next(container for container in spec["containers"] if container["name"] == MAIN)
    role = job.role(create.role)
    if role.command:
        main["command"] = list(role.command)
    if job.directory:
        main["workingDir"] = job.directory
    main["env"] = _environment(create, job, meta, main.get("env") or [], defaults)
    with_token(spec, main, defaults)
    if create.hold:
        with_hold(spec, main, create.hold)
    gpu = defaults.gpus.get(create.node) or defaults.gpu
    main["resources"] = merge(main.get("resources") or {}, resources(create.amounts, gpu, role, job.can))
    if defaults.volume is not None:
        spec = narrow(spec, defaults.volume, checkpoint_folder(defaults.checkpoints, meta))
    spec |= {"schedulerName": SCHEDULER, "restartPolicy": "Never", "hostname": hostname(create.role, create.index)}
    spec |= {"subdomain": create.subdomain} if create.subdomain else {}
    given = spec.get("tolerations") or []
    if more := [one for mark in role.tolerates if (one := _toleration(mark)) not in given]:
        spec["tolerations"] = [*given, *more]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(create, meta, template), "spec": spec}


def _toleration(mark: str) -> dict[str, str]:
    """As Kubernetes writes it: `team=vision` is the value of one key, `team` any value of it, `*` any key."""
    key, value, effect = read_mark(mark)
    written = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return ({} if key == ANY else {"key": key}) | written | ({"effect": effect} if effect else {})


def body_of(
    action: PodAction, job: Job, meta: Meta, own: Mapping[str, Any], defaults: PodDefaults
) -> dict[str, Any] | None:
    """The body of the request for an action; None for an action that does not go to the API server."""
    match action:
        case Create():
            return pod_of(action, job, meta, own, defaults)
        case ResizePod():
            named = read_pod_name(action.name, meta.name)
            return None if named is None else resources(action.amounts, defaults.gpu, job.role(named[1]), job.can)
        case Publish():
            return service_of(meta, action.name)
        case Release():
            return release_of(meta, action.name, action.pods)
    return {} if hasattr(action, "name") else None


def resources(amounts: Amounts, gpu: str, role: Role, can: Can) -> dict[str, Any]:
    """What one replica is promised (`requests`), and what it may use (`limits`).

    What it holds may fall below what it asked for, and its limit stays. A resize must not change the QoS class of a
    pod. So the memory request of a job that may be resized is a byte below its limit: its pods are Burstable for good.
    Where its user names neither cpu nor memory, nothing but the node limits it.
    """
    requests = {gpu if kind == GPU else kind: write(kind, amount) for kind, amount in amounts if amount}
    if role.unstated:
        others = {name: amount for name, amount in requests.items() if name not in (CPU, MEMORY)}
        return {"requests": requests, "limits": others} if others else {"requests": requests}
    limits, may = dict(requests), dict(role.limit)
    for kind, held in amounts:
        if kind in (CPU, MEMORY) and held:
            asked = role.amount(kind) if kind == CPU else 0
            limits[kind] = write(kind, max(held, asked, may.get(kind, 0)))
    memory = dict(amounts).get(MEMORY, 0)
    if memory and can & Can.RESIZE:
        requests[MEMORY] = str((memory << 20) - 1)
    return {"requests": requests, "limits": limits}


def names_resources(template: Mapping[str, Any]) -> bool:
    """Whether a pod template says what its training container needs."""
    containers = (template.get("spec") or {}).get("containers") or []
    main = next((one for one in containers if isinstance(one, dict) and one.get("name") == MAIN), {})
    found = main.get("resources") or {}
    return any(found.get(part) for part in ("requests", "limits", "claims")) if isinstance(found, dict) else True


def _metadata(create: Create, meta: Meta, template: Mapping[str, Any]) -> dict[str, Any]:
    given = template.get("metadata") or {}
    labels = {LABEL_JOB: meta.name[:63], LABEL_ROLE: create.role, LABEL_INDEX: str(create.index),
              LABEL_ATTEMPT: str(create.attempt)}  # fmt: skip
    return {
        "name": create.name, "namespace": meta.namespace,
        "labels": {**(given.get("labels") or {}), **labels},
        "annotations": {**(given.get("annotations") or {}), PLANNED_NODE: create.node},
        "ownerReferences": [owner(meta)],
    }  # fmt: skip


def _environment(create: Create, job: Job, meta: Meta, given: list[Any], defaults: PodDefaults) -> list[Any]:
    """The template's variables, then the job's, then Headway's. The job may set its own checkpoint folder.

    What frameworks read to find each other is set where neither template nor job sets it.
    """
    headway = {
        "HEADWAY_JOB": job.id, "HEADWAY_ROLE": create.role, "HEADWAY_INDEX": str(create.index),
        "HEADWAY_ATTEMPT": str(create.attempt), "HEADWAY_PORT": str(PORT),
        "HEADWAY_HOSTS": _written_hosts(create.hosts),
        "HEADWAY_REPLICAS": json.dumps(dict(create.counts)),
    }  # fmt: skip
    headway |= report_environment(defaults)
    own = dict(job.role(create.role).env)
    names = {entry.get("name") for entry in given} | set(own)
    if defaults.checkpoints and "HEADWAY_CHECKPOINT" not in names:
        headway["HEADWAY_CHECKPOINT"] = checkpoint_folder(defaults.checkpoints, meta)
    written = {str(entry.get("name")): str(entry.get("value") or "") for entry in given}
    settled = _rendezvous(create, job, written | own, defaults) | own | headway
    kept = [entry for entry in given if entry.get("name") not in settled]
    return [*kept, *({"name": name, "value": value} for name, value in settled.items())]


@lru_cache(maxsize=8)
def _written_hosts(hosts: Hosts) -> str:
    """The same for all pods of a gang, so it is written once."""
    return json.dumps({role: list(listening) for role, listening in hosts})


@lru_cache(maxsize=8)
def _addresses(hosts: Hosts) -> dict[str, dict[int, str]]:
    return {role: indexed(listening) for role, listening in hosts}


def _rendezvous(create: Create, job: Job, own: Mapping[str, str], defaults: PodDefaults) -> dict[str, str]:
    addresses = _addresses(create.hosts)
    if create.index not in addresses.get(create.role, {}):
        return {}  # a dry run: nobody is anywhere yet
    where = Rendezvous.of(job, create.attempt, addresses, defaults.master_port)
    return variables(where, create.role, create.index, gpus=dict(create.amounts).get(GPU, 0), own=own)


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merges maps by key, and lists of named entries by name. Everything else is replaced."""
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(old, value)
        elif key in NAMED_LISTS and isinstance(old, list) and isinstance(value, list):
            merged[key] = _merge_named(old, value, NAMED_LISTS[key])
        else:
            merged[key] = value
    return merged


def _merge_named(under: list[Any], over: list[Any], name: str) -> list[Any]:
    if not all(isinstance(entry, Mapping) for entry in (*under, *over)):
        return over
    merged = {_key(entry, name): dict(entry) for entry in under}
    for entry in over:
        key = _key(entry, name)
        merged[key] = merge(merged[key], entry) if key in merged else dict(entry)
    return list(merged.values())


def _key(entry: Mapping[str, Any], name: str) -> Any:
    """What names the entry; an entry without a name is like no other."""
    key = entry.get(name)
    return key if isinstance(key, str | int) else id(entry)


class TemplateError(ValueError):
    """The template is invalid. The message names the field, below the template."""


class _Named(msgspec.Struct):
    name: str = ""


class _Mount(msgspec.Struct):
    mountPath: str = ""  # noqa: N815  Kubernetes' spelling, here and below


class _Port(msgspec.Struct):
    containerPort: int = 0  # noqa: N815


class _Amounts(msgspec.Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct):
    name: str
    command: list[str] | None = None
    env: list[_Named] | None = None
    volumeMounts: list[_Mount] | None = None  # noqa: N815
    volumeDevices: list[_Named] | None = None  # noqa: N815
    ports: list[_Port] | None = None
    resources: _Amounts | None = None


class _PodShape(msgspec.Struct):
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None  # noqa: N815
    ephemeralContainers: list[_Container] | None = None  # noqa: N815
    volumes: list[_Named] | None = None
    imagePullSecrets: list[_Named] | None = None  # noqa: N815
    tolerations: list[dict[str, Any]] | None = None


class _MetadataShape(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _TemplateShape(msgspec.Struct):
    metadata: _MetadataShape | None = None
    spec: _PodShape | None = None


def check_template(template: Mapping[str, Any]) -> None:
    """Raises TemplateError where a part that Headway reads has another type."""
    try:
        msgspec.convert(template, _TemplateShape)
    except msgspec.ValidationError as error:
        raise TemplateError(_sentence(str(error))) from error


def _sentence(told: str) -> str:
    """From "Expected `object`, got `int` - at `$.spec`" to "spec: must be a map, not int"."""
    what, _, where = told.replace("`", "").partition(" - at ")
    field = where.removeprefix("$").removeprefix(".").replace("[...]", "[]")
    expected, _, got = what.removeprefix("Expected ").partition(", got ")
    words = {"object": "a map", "array": "a list", "str": "a text", "object | null": "a map", "array | null": "a list"}
    why = f"must be {words.get(expected, expected)}, not {got}" if got else f"{what[:1].lower()}{what[1:]}"
    return f"{field}: {why}" if field else why


GATE_VOLUME = "headway-after"
GATE_FOLDER = "/var/run/headway.dev/after"


def hold_name(subdomain: str, attempt: int, role: str) -> str:
    """The ConfigMap for which the pods of a role wait in this attempt."""
    return f"{subdomain}-{attempt}-{role}"


def with_hold(spec: dict[str, Any], container: dict[str, Any], name: str) -> None:
    """The container that trains starts when there is a ConfigMap of this name."""
    volume = {"name": GATE_VOLUME, "configMap": {"name": name, "optional": False}}
    spec["volumes"] = [*(one for one in spec.get("volumes") or [] if one.get("name") != GATE_VOLUME), volume]
    mounts = [one for one in container.get("volumeMounts") or [] if one.get("name") != GATE_VOLUME]
    container["volumeMounts"] = [*mounts, {"name": GATE_VOLUME, "mountPath": GATE_FOLDER, "readOnly": True}]


def release_of(meta: Meta, name: str, pods: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The ConfigMap. It belongs to these pods of the attempt, by name and uid, and is deleted with the last of them."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid} for pod, uid in pods]
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": meta.namespace, "ownerReferences": owners},
        "immutable": True,
    }  # fmt: skip


AUDIENCE = "headway"
REPORT_FOLDER = "/var/run/secrets/headway.dev"
REPORT_VOLUME = "headway-token"
TOKEN_SECONDS = 3600
"""How long a token is valid; the kubelet renews it after four fifths of that."""


def report_environment(defaults: PodDefaults) -> dict[str, str]:
    if not defaults.progress:
        return {}
    found = {"HEADWAY_PROGRESS": defaults.progress}
    if defaults.authority:
        found |= {"HEADWAY_PROGRESS_CA": defaults.authority, "HEADWAY_PROGRESS_TOKEN": f"{REPORT_FOLDER}/token"}
    return found


def with_token(spec: dict[str, Any], container: dict[str, Any], defaults: PodDefaults) -> None:
    """Adds the token to the pod and mounts it in the container that trains. A template's own of the same name goes."""
    if not defaults.authority:
        return
    source = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    volume = {"name": REPORT_VOLUME, "projected": {"sources": [{"serviceAccountToken": source}]}}
    mount = {"name": REPORT_VOLUME, "mountPath": REPORT_FOLDER, "readOnly": True}
    others = [one for one in spec.get("volumes") or [] if one.get("name") != REPORT_VOLUME]
    spec["volumes"] = [*others, volume]
    mounts = [one for one in container.get("volumeMounts") or [] if one.get("mountPath") != REPORT_FOLDER]
    container["volumeMounts"] = [*(one for one in mounts if one.get("name") != REPORT_VOLUME), mount]
