"""`headway jobs`: prints the TrainingJobs of a cluster as a table."""

from __future__ import annotations

import asyncio
import json as json_
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from headway.cli.options import Context, Json, Kubeconfig, access_for, need_extra
from headway.cli.show import plain
from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access
    from headway.kube.listing import ListedJob

COLUMNS = ("job", "user", "phase", "replicas", "nodes", "progress", "loss", "eta", "attempt", "why")


def jobs(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Annotated[str, typer.Option(help="List this namespace, or `all`. Default: the context's.")] = "",
    json: Json = False,
) -> None:
    """List TrainingJobs: phase, nodes, progress, expected end, and why a job waits."""
    need_extra()
    access = access_for(kubeconfig, context)
    rows = asyncio.run(_list(access, namespace or access.namespace))
    if json:
        print(json_.dumps({"jobs": [msgspec.to_builtins(row) for row in rows]}))
        return
    from rich.console import Console

    Console().print(table_of(rows))


def table_of(rows: list[ListedJob]) -> Table:
    table = Table()
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in ("replicas", "progress", "loss", "attempt") else "left")
    for row in rows:
        loss = "" if row.loss is None else f"{row.loss:.4f}"
        table.add_row(*map(plain, (
            row.name, row.user, row.phase, str(row.replicas), " ".join(row.nodes), row.progress, loss,
            row.eta, str(row.attempt), row.message,
        )))  # fmt: skip
    return table


async def _list(access: Access, namespace: str) -> list[ListedJob]:
    from headway.kube.api.client import Client
    from headway.kube.api.errors import ApiError
    from headway.kube.listing import list_jobs

    async with Client(access) as client:
        try:
            return await list_jobs(client, "" if namespace == "all" else namespace)
        except ApiError as error:
            raise UserError(f"TrainingJobs cannot be listed: {error}") from error
