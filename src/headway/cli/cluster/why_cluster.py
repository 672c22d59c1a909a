"""`headway why` of a TrainingJob on a cluster: what its status says, and the estimate that policies see."""

from __future__ import annotations

import asyncio
import json as json_
from typing import TYPE_CHECKING, Any

from headway.cli.options import access_for, need_extra
from headway.cli.screen.say import say
from headway.core.errors import UserError
from headway.core.text import lasting

if TYPE_CHECKING:
    from pathlib import Path

    from headway.kube.api.access import Access


def why_on_cluster(job: str, namespace: str, kubeconfig: Path | None, context: str, *, as_json: bool) -> None:
    need_extra()
    access = access_for(kubeconfig, context)
    found, ahead = asyncio.run(look(access, namespace or access.namespace, job))
    show(told(found, ahead), as_json=as_json)


def show(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json_.dumps(facts))
        return
    phase, reason = facts["phase"], facts["reason"]
    more = f": {facts['message']}" if facts["message"] else ""
    say(f"{facts['job']} ({phase if reason in (phase, '') else f'{phase}, {reason}'}){more}")
    for word, saying in _lines(facts):
        if saying:
            say(f"  {word:<9} {saying}", hang=12)


async def look(access: Access, namespace: str, job: str) -> tuple[dict[str, Any], int | None]:
    """The job, and how many waiting jobs came before it."""
    from headway.kube.api.client import Client
    from headway.kube.api.errors import ApiError
    from headway.kube.commands import ahead_of, read_job

    async with Client(access) as client:
        try:
            found = await read_job(client, namespace, job)
            return found, await ahead_of(client, found)
        except ApiError as error:
            raise UserError(f"job {job!r} cannot be read: {error}") from error


def told(found: dict[str, Any], ahead: int | None) -> dict[str, Any]:
    """What is told of a job."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    progress = status.get("progress") or {}
    return {
        "job": meta["name"], "namespace": meta["namespace"], "phase": status.get("phase") or "New",
        "reason": status.get("reason") or "NotSeenYet",
        "message": status.get("message") or ("" if status else "no scheduler has looked at it yet; does one run?"),
        "refused": status.get("refused") or "", "queue": spec.get("queue") or "", "ahead": ahead,
        "explained": [str(one) for one in status.get("explained") or []],
        "deadline": (status.get("deadline") or {}).get("text") or "",
        "nodes": status.get("nodes") or [], "replicas": status.get("replicas") or 0,
        "attempt": status.get("attempt") or 0, "progress": progress.get("text") or "", "loss": progress.get("loss"),
        "left": progress.get("left"), "spread": progress.get("spread"), "basis": progress.get("basis") or "",
        "starts": progress.get("starts") or "", "eta": progress.get("eta") or "", "done": progress.get("done") or "",
    }  # fmt: skip


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    left = ""
    if facts["left"] is not None:
        around = "" if facts["spread"] is None else f" ±{lasting(facts['spread'] * facts['left'])}"
        left = f"{lasting(facts['left'])}{around}: {facts['basis']}"
    place = "" if facts["ahead"] is None else _before(facts["ahead"])
    said = [(topic, saying) for one in facts["explained"] for topic, _, saying in [one.partition(": ")]]
    return [
        ("refused", facts["refused"]), ("queue", place), *said, ("due", facts["deadline"]),
        ("nodes", "; ".join(facts["nodes"])), ("progress", facts["progress"]),
        ("left", left or facts["basis"]), ("starts", facts["starts"]), ("done", facts["done"]),
    ]  # fmt: skip


def _before(ahead: int) -> str:
    jobs = "1 waiting job" if ahead == 1 else f"{ahead} waiting jobs"
    return f"{jobs} of its namespace and queue came before it"
