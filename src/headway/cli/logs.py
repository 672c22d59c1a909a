"""`headway logs`: what a replica of a TrainingJob prints."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Context, Kubeconfig, Namespace, access_for, need_extra
from headway.core.errors import UserError

if TYPE_CHECKING:
    from headway.kube.api.access import Access


def logs(
    job: Annotated[str, typer.Argument(help="The TrainingJob's name.")],
    role: Annotated[str, typer.Option(help="Of this role. Default: the first by name.")] = "",
    index: Annotated[int | None, typer.Option(min=0, help="Of this replica. Default: the first.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print what comes, until the replica ends.")] = False,
    lines: Annotated[
        int | None, typer.Option(min=0, help="Begin with so many of the last lines. Default: all.")
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Print the log of a replica of a TrainingJob on a cluster, of its newest start."""
    need_extra()
    access = access_for(kubeconfig, context)
    choice = (namespace or access.namespace, job, role, index)
    asyncio.run(printed(access, choice, lines=lines, follow=follow))


async def printed(access: Access, choice: tuple[str, str, str, int | None], *, lines: int | None, follow: bool) -> None:
    """Prints the log of the replica that namespace, job, role and index choose."""
    from headway.kube.api.client import Client
    from headway.kube.api.errors import ApiError
    from headway.kube.verbs import chosen, log_of, read_job, replicas_of

    namespace, job, role, index = choice
    async with Client(access) as client:
        try:
            await read_job(client, namespace, job)
            pod = chosen(await replicas_of(client, namespace, job), job, role, index)
            async for chunk in log_of(client, pod, lines=lines, follow=follow):
                sys.stdout.buffer.write(chunk)
                sys.stdout.flush()
        except ApiError as error:
            raise UserError(f"the log of job {job!r} cannot be read: {error}") from error
