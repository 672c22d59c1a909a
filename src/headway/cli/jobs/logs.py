"""`headway logs`: what a replica of a job prints."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from headway.cli.machine.queue import meant_folder, the_jobs
from headway.cli.options import Context, Kubeconfig, Namespace, OnKube, State, access_for, need_extra, on_cluster
from headway.core.errors import UserError
from headway.local.over import TAIL_BYTES
from headway.local.state_folder import is_locked

FOLLOW_SECONDS = 0.2

if TYPE_CHECKING:
    from headway.kube.api.access import Access


def logs(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    role: Annotated[str, typer.Option(help="Of this role. Default: the first by name.")] = "",
    index: Annotated[int | None, typer.Option(min=0, help="Replica index. Default: the first.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print what comes, until the replica ends.")] = False,
    lines: Annotated[
        int | None, typer.Option(min=0, help="Begin with so many of the last lines. Default: all.")
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    kube: OnKube = None,
    state: State = None,
) -> None:
    """Print what a replica of a job prints: in the queue, or on a cluster with its options or KUBECONFIG."""
    if not on_cluster(kube, namespace, kubeconfig, context):
        _print_here(meant_folder(state), job, (role, index), lines=lines, follow=follow)
        return
    need_extra()
    access = access_for(kubeconfig, context)
    choice = (namespace or access.namespace, job, role, index)
    asyncio.run(printed(access, choice, lines=lines, follow=follow))


async def printed(access: Access, choice: tuple[str, str, str, int | None], *, lines: int | None, follow: bool) -> None:
    """Prints the log of the replica that namespace, job, role and index choose."""
    from headway.kube.api.client import Client
    from headway.kube.api.errors import ApiError
    from headway.kube.commands import chosen, log_of, read_job, replicas_of

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


# ── on this machine ─────────────────────────────────────────────────────────────────────────────────────────


def _print_here(folder: Path, job: str, replica: tuple[str, int | None], *, lines: int | None, follow: bool) -> None:
    """Prints the output in the state folder. It has all starts of the job."""
    the_jobs(folder, [job])
    path = _output(folder / "output" / job, *replica)
    while path is None:
        if not follow or the_jobs(folder, [job])[0].is_over:
            raise UserError(f"{job}: has printed nothing yet{'' if follow else '; --follow waits for it'}")
        time.sleep(FOLLOW_SECONDS)
        path = _output(folder / "output" / job, *replica)
    with path.open("rb") as file:
        if lines is not None:
            _skip_to_last(file, lines)
        while True:
            over = not follow or the_jobs(folder, [job])[0].is_over or not is_locked(folder)
            while chunk := file.read(65536):
                sys.stdout.buffer.write(chunk)
                sys.stdout.flush()
            if over:
                return
            time.sleep(FOLLOW_SECONDS)


def _output(folder: Path, role: str, index: int | None) -> Path | None:
    """The output of the replica; by default of the first that has one. Commands at the end have theirs beside."""
    found = sorted(path for path in folder.glob(f"{role or '*'}-{'*' if index is None else index}.log"))
    return found[0] if found else None


def _skip_to_last(file: IO[bytes], lines: int) -> None:
    end = place = file.seek(0, os.SEEK_END)
    tail = b""
    while place and tail.count(b"\n") <= lines:
        place = max(0, place - TAIL_BYTES)
        file.seek(place)
        tail = file.read(end - place)
    kept = b"".join(tail.splitlines(keepends=True)[-lines:]) if lines else b""
    file.seek(end - len(kept))
