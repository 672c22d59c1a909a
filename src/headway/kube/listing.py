"""TrainingJobs as rows of a table, for `headway jobs`."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.core.states import OVER
from headway.kube.api.client import Client
from headway.kube.api.objects import API_VERSION, Meta
from headway.kube.job.spec import job_id
from headway.kube.job.status import PHASES

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
    eta: str = ""
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
        eta=(progress.get("eta") or "")[:19], attempt=status.get("attempt", 0), reason=status.get("reason", ""),
        message=status.get("message", ""),
        queue=str(job.spec.get("queue", "")), since=status.get("since"), created=meta.creationTimestamp,
    )  # fmt: skip
