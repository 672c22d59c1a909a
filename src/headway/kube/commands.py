"""What a user does with one TrainingJob from the command line: look at it, change its orders, read its log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from headway.core.states import OVER
from headway.kube.api.client import Client, loads
from headway.kube.api.errors import KubeError, NotFound
from headway.kube.api.objects import API_VERSION, LABEL_JOB, Meta, Pod
from headway.kube.intake.spec import job_id
from headway.kube.pods.marks import PodName, read_pod_name
from headway.kube.pods.replica import MAIN
from headway.kube.views.status import PHASES

_pod = msgspec.json.Decoder(Pod)
MOST_NAMED = 10


async def read_job(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """The whole object. Raises KubeError if there is none."""
    return await _sent(client, "GET", namespace, name)


async def order(client: Client, namespace: str, name: str, **spec: object) -> dict[str, Any]:
    """Changes these fields of its spec; returns the object."""
    return await _sent(client, "PATCH", namespace, name, {"spec": spec})


async def _sent(client: Client, method: str, namespace: str, name: str, body: Any = None) -> dict[str, Any]:
    path = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/trainingjobs/{quote(name, safe='')}"
    try:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        found: dict[str, Any] = loads(await client.send(method, path, body, kind))
    except NotFound as error:
        raise KubeError(await _missing(client, namespace, name)) from error
    return found


async def _missing(client: Client, namespace: str, name: str) -> str:
    known = [row.name for row in await list_jobs(client, namespace)]
    has = f"it has {', '.join(known[:MOST_NAMED])}" if known else "it has none"
    return f"there is no job {name!r} in namespace {namespace!r}; {has}"


async def ahead_of(client: Client, job: Mapping[str, Any]) -> int | None:
    """How many waiting jobs of its namespace and queue came before it; None if it does not wait."""
    meta, spec, status = job["metadata"], job.get("spec", {}), job.get("status", {})
    if status.get("phase") != "Waiting":
        return None
    rows = await list_jobs(client, meta["namespace"])
    return sum(_waits_before(row, meta, spec.get("queue", "")) for row in rows)


def _waits_before(row: ListedJob, meta: Mapping[str, Any], queue: str) -> bool:
    return row.phase == "Waiting" and row.queue == queue and row.created < meta["creationTimestamp"]


# ── its log ──


async def replicas_of(client: Client, namespace: str, name: str) -> dict[PodName, Pod]:
    """Its pods that exist, by attempt, role and index. Those that have ended keep their log until they are deleted."""
    selector = quote(f"{LABEL_JOB}={name}", safe="")
    found: dict[PodName, Pod] = {}
    async for page in client.list_pages(f"/api/v1/namespaces/{namespace}/pods", f"&labelSelector={selector}"):
        for raw in page.items or []:
            pod = _pod.decode(raw)
            named = read_pod_name(pod.metadata.name, name)
            if named is not None:
                found[named] = pod
    return found


def chosen(pods: Mapping[PodName, Pod], name: str, role: str, index: int | None) -> Pod:
    """The pod of the newest attempt with this role and index; by default of its first role and index. KubeError."""
    if not pods:
        raise KubeError(f"job {name!r} has no pods: there is no log")
    newest = max(attempt for attempt, _, _ in pods)
    fits = {key: pod for key, pod in pods.items() if key[0] == newest and role in ("", key[1])}
    fits = {key: pod for key, pod in fits.items() if index is None or key[2] == index}
    if not fits:
        known = ", ".join(f"{role} {index}" for attempt, role, index in sorted(pods)[:MOST_NAMED] if attempt == newest)
        raise KubeError(f"job {name!r} has no such replica: it has {known}")
    return fits[min(fits)]


async def log_of(client: Client, pod: Pod, *, lines: int | None, follow: bool) -> AsyncIterator[bytes]:
    """What its training container prints, as it comes."""
    meta = pod.metadata
    query = f"container={MAIN}&follow={'true' if follow else 'false'}" + (
        "" if lines is None else f"&tailLines={lines}"
    )
    async for chunk in client.stream(f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/log?{query}"):
        yield chunk


OVER_PHASES = frozenset(PHASES[state] for state in OVER)


class ListedJob(msgspec.Struct):
    name: str
    namespace: str
    user: str = ""
    phase: str = ""
    replicas: int = 0
    nodes: list[str] = []
    progress: str = ""
    step: int | None = None
    loss: float | None = None
    starts: str = ""
    eta: str = ""
    done: str = ""
    deadline: str = ""
    explained: list[str] = []
    attempt: int = 0
    reason: str = ""
    message: str = ""
    queue: str = ""
    since: float | None = None
    created: str = ""


class _Job(msgspec.Struct):
    metadata: Meta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(_Job)


async def list_jobs(client: Client, namespace: str) -> list[ListedJob]:
    """The jobs of a namespace, oldest first. If it is empty: those of all, with the namespace in their names."""
    inside = f"namespaces/{namespace}/" if namespace else ""
    rows = []
    async for page in client.list_pages(f"/apis/{API_VERSION}/{inside}trainingjobs"):
        for raw in page.items or []:
            try:
                rows.append(_row(_decoder.decode(raw), qualified=not namespace))
            except (msgspec.DecodeError, TypeError, AttributeError, LookupError, ValueError, RecursionError):
                continue  # its status says what is wrong
    return sorted(rows, key=lambda row: (row.created, row.namespace, row.name))


def _row(job: _Job, *, qualified: bool) -> ListedJob:
    status, meta = job.status, job.metadata
    progress = status.get("progress") or {}
    return ListedJob(
        name=job_id(meta.namespace, meta.name) if qualified else meta.name, namespace=meta.namespace,
        user=str(job.spec.get("user", "")), phase=status.get("phase", ""), replicas=status.get("replicas", 0),
        nodes=[str(one) for one in status.get("nodes") or []],
        progress=progress.get("text", ""), step=progress.get("step"), loss=progress.get("loss"),
        starts=str(progress.get("starts") or ""), eta=(progress.get("eta") or "")[:19],
        done=str(progress.get("done") or ""),
        deadline=str((status.get("deadline") or {}).get("text", "")),
        explained=[str(one) for one in status.get("explained") or []],
        attempt=status.get("attempt", 0), reason=status.get("reason", ""),
        message=status.get("message", ""),
        queue=str(job.spec.get("queue", "")), since=status.get("since"), created=meta.creationTimestamp,
    )  # fmt: skip
