"""`headway suspend`, `resume`, `cancel`: what a user orders of TrainingJobs on a cluster."""

from __future__ import annotations

import asyncio
import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.options import Context, Json, Kubeconfig, Namespace, access_for, need_extra
from headway.cli.say import say
from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access

Names = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of TrainingJobs.")]


def suspend(
    jobs: Names, namespace: Namespace = "", kubeconfig: Kubeconfig = None, context: Context = "", json: Json = False
) -> None:
    """Suspend TrainingJobs on a cluster: they save, their pods go, and they wait until they are resumed."""
    _order(jobs, "suspended", {"suspend": True}, (namespace, kubeconfig, context), as_json=json)


def resume(
    jobs: Names, namespace: Namespace = "", kubeconfig: Kubeconfig = None, context: Context = "", json: Json = False
) -> None:
    """Resume suspended TrainingJobs on a cluster: they go on from their checkpoints when there is room."""
    _order(jobs, "resumed", {"suspend": False}, (namespace, kubeconfig, context), as_json=json)


def cancel(
    jobs: Names, namespace: Namespace = "", kubeconfig: Kubeconfig = None, context: Context = "", json: Json = False
) -> None:
    """Cancel TrainingJobs on a cluster for good. They save first. The objects stay until they are deleted."""
    _order(jobs, "cancelled", {"cancel": True}, (namespace, kubeconfig, context), as_json=json)


def _order(
    jobs: list[str], word: str, spec: dict[str, bool], where: tuple[str, Path | None, str], *, as_json: bool
) -> None:
    need_extra()
    namespace, kubeconfig, context = where
    access = access_for(kubeconfig, context)
    inside = namespace or access.namespace
    told = asyncio.run(ordered(access, inside, jobs, word, spec))
    if as_json:
        print(json_.dumps({"namespace": inside, "jobs": told}))
        return
    for row in told:
        late = f"{row['name']} is not {word}: it is {row['phase']} already"
        say(late if row["over"] else f"{row['name']} is to be {word}")


async def ordered(
    access: Access, namespace: str, jobs: list[str], word: str, spec: dict[str, bool]
) -> list[dict[str, Any]]:
    """Writes the order to each job that is not over; returns what each was."""
    from headway.kube.api.client import Client
    from headway.kube.api.errors import ApiError
    from headway.kube.listing import OVER_PHASES
    from headway.kube.verbs import order, read_job

    told = []
    async with Client(access) as client:
        for name in jobs:
            try:
                phase = (await read_job(client, namespace, name)).get("status", {}).get("phase", "")
                over = phase in OVER_PHASES
                if not over:
                    await order(client, namespace, name, **spec)
            except ApiError as error:
                raise UserError(f"job {name!r} cannot be {word}: {error}") from error
            told.append({"name": name, "phase": phase, "over": over})
    return told
