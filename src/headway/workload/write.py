"""Writes workloads to our own files: YAML, JSON lines or csv by the ending of the name; .gz compresses.

The same trace gives the same bytes, and reading them gives the same jobs.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from headway.core.job import SAVE_EVERY_SECONDS, Job, Role
from headway.core.node import Node
from headway.core.quantity import write
from headway.jobspec import amounts_entry, can_entry, role_entry, success_entry, target_entry
from headway.restarts import restarts_entry
from headway.workload.errors import WorkloadError
from headway.workload.open import CSV_COLUMNS
from headway.workload.trace import Trace


def write_workload(trace: Trace, path: Path, *, overwrite: bool = True) -> None:
    """Writes the file. Without `overwrite`, another content under that name is left alone and told."""
    name = path.name.removesuffix(".gz")
    if name.endswith((".yaml", ".yml")) and path.name == name:
        content = _yaml(trace)
    elif name.endswith(".jsonl"):
        content = b"".join(msgspec.json.encode(_line(job, trace)) + b"\n" for job in trace.jobs)
    elif name.endswith(".csv"):
        content = _csv(trace)
    else:
        raise WorkloadError(f"{path}: the name must end in .yaml, .jsonl, .csv, .jsonl.gz or .csv.gz")
    if path.name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    try:
        if not overwrite and path.is_file() and path.read_bytes() != content:
            raise WorkloadError(f"{path}: exists, and has other jobs in it; --force overwrites it")
        path.write_bytes(content)
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be written: {error.strerror}") from error


def _yaml(trace: Trace) -> bytes:
    if trace.truth:
        raise WorkloadError("a jobs file has declared durations only, no true ones; write .jsonl or .csv instead")
    entries: dict[str, Any] = {}
    if trace.nodes:
        entries["nodes"] = node_entries(trace.nodes)
    entries["jobs"] = [job_entry(job) for job in trace.jobs]
    return msgspec.yaml.encode(entries)


def _line(job: Job, trace: Trace) -> dict[str, Any]:
    entry = job_entry(job)
    if trace.truth and job.id in trace.truth:
        entry["true_seconds"] = trace.truth[job.id]
    return entry


def _csv(trace: Trace) -> bytes:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for job in trace.jobs:
        beyond = [field for field in job_entry(job) if field not in (*CSV_COLUMNS, "target")]
        if beyond:
            what = "one role per job, called worker" if "roles" in beyond else f"no {beyond[0]}"
            raise WorkloadError(f"job {job.id!r}: a csv file holds {what}; write .jsonl or .yaml instead")
        table.writerow(_csv_row(job, (trace.truth or {}).get(job.id)))
    return text.getvalue().encode()


def job_entry(job: Job) -> dict[str, Any]:
    """The fields of a job in a jobs file, without those that have their default."""
    entry: dict[str, Any] = {"name": job.id, "submit": job.submit}
    if job.seconds is not None:
        entry["seconds"] = job.seconds
    if job.deadline is not None:
        entry["deadline"] = round(job.deadline - job.submit, 6)
    for name in ("user", "queue", "priority", "steps", "model", "on_end", "on_failure"):
        if getattr(job, name):
            entry[name] = getattr(job, name)
    entry |= _retries_entry(job)
    if job.target is not None:
        entry["target"] = target_entry(job.target)
    if success := success_entry(job.success):
        entry["success"] = success
    if restarts := restarts_entry(job.restarts):
        entry["restarts"] = restarts
    can = can_entry(job.can)
    if can is not None:
        entry["can"] = can
    entry |= {} if job.checkpoints else {"checkpoints": False}
    entry |= {"saves": "itself"} if job.saves_itself else {}
    entry |= {} if job.save_every == SAVE_EVERY_SECONDS else {"save_every": job.save_every}
    entry |= {"fresh": True} if job.fresh else {}
    if [role.name for role in job.roles] == ["worker"]:
        return {**entry, **role_entry(job.roles[0])}
    return {**entry, "roles": {role.name: role_entry(role) for role in job.roles}}


def _retries_entry(job: Job) -> dict[str, Any]:
    rules = {name: list(rule) for name, rule in (("on", job.retry_on), ("not_on", job.retry_not_on)) if rule}
    if rules:
        return {"retries": {"times": job.retries, **rules}}
    return {"retries": job.retries} if job.retries else {}


def node_entries(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Equal nodes named `base-0`, `base-1`, … become one entry; all others have one each."""
    entries = []
    for _, group in groupby(enumerate(nodes), key=lambda pair: _alike(pair[1])):
        alike = [node for _, node in group]
        base = alike[0].name.removesuffix("-0")
        if len(alike) > 1 and [node.name for node in alike] == [f"{base}-{i}" for i in range(len(alike))]:
            entries.append({"name": base, "count": len(alike), **_node_entry(alike[0])})
        else:
            entries += [{"name": node.name, **_node_entry(node)} for node in alike]
    return entries


def _alike(node: Node) -> tuple[object, ...]:
    return (node.capacity, node.labels, node.taints, node.domain, node.accelerator)


def _node_entry(node: Node) -> dict[str, Any]:
    entry = amounts_entry(node.capacity)
    if node.labels:
        entry["labels"] = dict(node.labels)
    if node.taints:
        entry["taints"] = list(node.taints)
    for name in ("domain", "accelerator"):
        if getattr(node, name):
            entry[name] = getattr(node, name)
    return entry


def _csv_row(job: Job, true_seconds: float | None) -> list[str]:
    """The job as a row in the order of `CSV_COLUMNS`. The caller checks that a row can hold the job."""
    given = dict(_cells(job, job.roles[0], true_seconds))
    return [given.get(name, "") for name in CSV_COLUMNS]


def _cells(job: Job, role: Role, true_seconds: float | None) -> Iterator[tuple[str, str]]:
    yield "name", job.id
    yield "submit", repr(job.submit)
    for name, value in (("seconds", job.seconds), ("true_seconds", true_seconds)):
        if value is not None:
            yield name, repr(value)
    yield "replicas", str(role.replicas)
    yield "min", str(role.min)
    yield "max", str(role.max)
    for kind, amount in role.request:
        yield kind, write(kind, amount)
    yield from (("user", job.user), ("queue", job.queue), ("priority", str(job.priority)))
    if job.deadline is not None:
        yield "deadline", repr(round(job.deadline - job.submit, 6))
    yield "steps", str(job.steps or "")
    yield from (("model", job.model), ("accelerator", role.accelerator))
    if job.target is not None:
        yield from ((f"target_{name}", str(value)) for name, value in target_entry(job.target).items())
