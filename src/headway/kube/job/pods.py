"""The pod of one replica, as it is sent to the API server. Pure.

A pod template has Kubernetes' own format; any part may be left out. The cluster's template comes first, then the job's,
then what Headway decides: command, environment, resources, node, and the job's own folder of the checkpoint volume.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headway.core.job import Amounts, Job
from headway.core.quantity import GPU, write
from headway.core.suits import ANY, read_mark
from headway.kube.api.objects import (
    LABEL_ATTEMPT,
    LABEL_INDEX,
    LABEL_JOB,
    LABEL_ROLE,
    PLANNED_NODE,
    SCHEDULER,
    Meta,
)
from headway.kube.job.checkpoints import checkpoint_folder, narrow
from headway.kube.job.hold import release_of, with_hold
from headway.kube.job.hosts import PORT, hostname, indexed, owner, service_of
from headway.kube.job.replica import MAIN
from headway.kube.job.report_access import report_environment, with_token
from headway.kube.job.template_rules import NAMED_LISTS
from headway.kube.reconcile.model import Create, PodAction, Publish, Release, ResizePod
from headway.kube.settings import PodDefaults
from headway.rendezvous import Rendezvous, variables


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
    main["resources"] = merge(main.get("resources") or {}, resources(create.amounts, gpu))
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
            return resources(action.amounts, defaults.gpu)
        case Publish():
            return service_of(meta, action.name)
        case Release():
            return release_of(meta, action.name, action.pods)
    return {} if hasattr(action, "name") else None


def resources(amounts: Amounts, gpu: str) -> dict[str, Any]:
    """Limits equal requests. A resize in place sets both and so does not change the QoS class."""
    written = {gpu if kind == GPU else kind: write(kind, amount) for kind, amount in amounts if amount}
    return {"requests": written, "limits": dict(written)}


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
        "HEADWAY_HOSTS": json.dumps({role: list(hosts) for role, hosts in create.hosts}),
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


def _rendezvous(create: Create, job: Job, own: Mapping[str, str], defaults: PodDefaults) -> dict[str, str]:
    addresses = {role: indexed(hosts) for role, hosts in create.hosts}
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
