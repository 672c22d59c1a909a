"""`headway jobs`: prints the jobs of the queue, or the TrainingJobs of a cluster, as a table."""

from __future__ import annotations

import asyncio
import json as json_
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headway.cli.machine.queue import meant_folder, show_jobs, status_of
from headway.cli.options import Context, Json, Kubeconfig, OnKube, State, access_for, need_extra, on_cluster
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted
from headway.core.errors import UserError
from headway.local.state_folder import is_locked

if TYPE_CHECKING:
    from headway.kube.api.access import Access
    from headway.kube.commands import ListedJob

COLUMNS = (
    TableColumn("job", is_text=True), TableColumn("user", is_text=True, drop=4), TableColumn("phase"),
    TableColumn("replicas", drop=4), TableColumn("progress"), TableColumn("loss", drop=1),
    TableColumn("starts", drop=3), TableColumn("eta", drop=3), TableColumn("deadline", is_text=True, drop=2),
    TableColumn("attempt", drop=6), TableColumn("nodes", is_text=True, drop=5),
    TableColumn("why", is_text=True, one_line=True),
)  # fmt: skip


def jobs(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="List this namespace, or `all`. Default: the context's.")
    ] = "",
    kube: OnKube = None,
    state: State = None,
    everything: Annotated[bool, typer.Option("--all", help="Of the queue: list all jobs that are over.")] = False,
    json: Json = False,
) -> None:
    """List the jobs of the queue, or of a cluster: state, progress, and why a job waits.

    Of a cluster with --kube, -n, --kubeconfig or --context, or where KUBECONFIG is set; --here: of this machine.
    """
    if not on_cluster(kube, namespace, kubeconfig, context):
        folder = meant_folder(state)
        if json:
            told = msgspec.to_builtins(status_of(folder).jobs)
            print(json_.dumps({"folder": str(folder), "up": is_locked(folder), "jobs": told}))
        else:
            show_jobs(folder, everything=everything)
        return
    need_extra()
    access = access_for(kubeconfig, context)
    rows = asyncio.run(listed(access, namespace or access.namespace))
    if json:
        print(json_.dumps({"jobs": [msgspec.to_builtins(row) for row in rows]}))
        return
    from rich.console import Console

    console = Console()
    console.print(table_of(rows, console.width, time.strftime("%Y-%m-%d", time.gmtime())))


def table_of(rows: list[ListedJob], width: int = 80, today: str = "") -> Table:
    """`today` is a date such as 2026-11-17."""
    cells: list[list[str | Text]] = []
    for row in rows:
        loss = "" if row.loss is None else f"{row.loss:.4f}"
        starts = _short(row.starts[:16].replace(" ", "T"), today)
        texts = (row.name, row.user, row.phase, str(row.replicas or ""), row.progress, loss, starts,
                 _short(row.eta, today), row.deadline, str(row.attempt or ""), " ".join(row.nodes),
                 row.message)  # fmt: skip
        cells.append([plain(text) for text in texts])
    return fitted("", COLUMNS, cells, width)


def _short(eta: str, today: str) -> str:
    """Example: `08:25Z` for 2026-11-17T08:25:37, which is in UTC; on other days `11-17 08:25Z`."""
    day, _, clock = eta.partition("T")
    if not clock:
        return eta
    return f"{clock[:5]}Z" if day == today else f"{day[5:]} {clock[:5]}Z"


async def listed(access: Access, namespace: str) -> list[ListedJob]:
    """Of a namespace, or of `all`."""
    from headway.kube.api.client import Client
    from headway.kube.api.errors import ApiError
    from headway.kube.commands import list_jobs

    async with Client(access) as client:
        try:
            return await list_jobs(client, "" if namespace == "all" else namespace)
        except ApiError as error:
            raise UserError(f"TrainingJobs cannot be listed: {error}") from error
