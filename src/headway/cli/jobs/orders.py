"""`headway suspend`, `resume`, `cancel`, and in the queue `move-up`, `retry` and `wait`: what a user orders of jobs."""

from __future__ import annotations

import asyncio
import json as json_
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from headway.cli.machine.queue import meant_folder, need_added, status_of, the_jobs
from headway.cli.machine.queue_status import SUSPENDED, JobStatus
from headway.cli.options import (
    Context,
    Json,
    Kubeconfig,
    Namespace,
    OnKube,
    State,
    access_for,
    need_extra,
    on_cluster,
)
from headway.cli.screen.say import say
from headway.cli.screen.show import near
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.local.added import AddedJob, added_jobs, bring_back, changed, take_out
from headway.local.state_folder import is_locked

if TYPE_CHECKING:
    from headway.kube.api.access import Access

Names = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of jobs.")]
POLL_SECONDS = 0.3


def suspend(
    jobs: Names, namespace: Namespace = "", kubeconfig: Kubeconfig = None, context: Context = "", kube: OnKube = None,
    state: State = None, json: Json = False,
) -> None:  # fmt: skip
    """Suspend jobs: they save, stop, and wait until they are resumed. In the queue, or on a cluster."""
    where = kube, namespace, kubeconfig, context, state
    _either(jobs, "suspended", {"suspend": True}, partial(changed, change=_suspended), where, as_json=json)


def resume(
    jobs: Names, namespace: Namespace = "", kubeconfig: Kubeconfig = None, context: Context = "", kube: OnKube = None,
    state: State = None, json: Json = False,
) -> None:  # fmt: skip
    """Resume suspended jobs: they go on from their checkpoints. In the queue, or on a cluster."""
    where = kube, namespace, kubeconfig, context, state
    _either(jobs, "resumed", {"suspend": False}, partial(changed, change=_resumed), where, as_json=json)


def cancel(
    jobs: Names, namespace: Namespace = "", kubeconfig: Kubeconfig = None, context: Context = "", kube: OnKube = None,
    state: State = None, json: Json = False,
) -> None:  # fmt: skip
    """Cancel jobs. They save first. In the queue their checkpoints stay; on a cluster the objects stay."""
    where = kube, namespace, kubeconfig, context, state
    _either(jobs, "cancelled", {"cancel": True}, take_out, where, as_json=json)


def _either(
    jobs: list[str], word: str, spec: dict[str, bool], act: Callable[[Path, JobId], object],
    where: tuple[bool | None, str, Path | None, str, Path | None], *, as_json: bool,
) -> None:  # fmt: skip
    """Writes this to the TrainingJobs of a cluster, or does that to the jobs of the queue."""
    kube, namespace, kubeconfig, context, state = where
    if on_cluster(kube, namespace, kubeconfig, context):
        _order(jobs, word, spec, (namespace, kubeconfig, context), as_json=as_json)
    else:
        folder = meant_folder(state)
        _order_here(folder, jobs, word, partial(act, folder), as_json=as_json)


# ── in the queue ────────────────────────────────────────────────────────────────────────────────────────────


def move_up(jobs: Names, state: State = None, json: Json = False) -> None:
    """Move waiting jobs of the queue up: their priority becomes higher than that of all others that wait."""
    folder = meant_folder(state)
    others = [job.priority for job in status_of(folder).jobs if not job.is_over and job.name not in jobs]
    first = max([0, *others]) + 1
    _order_here(
        folder, jobs, "moved up", lambda job: changed(folder, job, partial(_with_priority, first)), as_json=json
    )


def retry(jobs: Names, state: State = None, json: Json = False) -> None:
    """Run jobs of the queue again that failed or were cancelled, from their checkpoints."""
    folder = meant_folder(state)
    added = added_jobs(folder, {})
    for job in the_jobs(folder, jobs):
        if job.state == "finished" or (not job.is_over and job.name in added):
            raise UserError(f"{job.name}: is {job.state}; only a job that failed or was cancelled is tried again")
    for name in jobs:
        if not bring_back(folder, JobId(name)):
            need_added(folder, [name])
            changed(folder, JobId(name), lambda one: msgspec.structs.replace(one, asked=time.time_ns()))
    _told(folder, jobs, "tried again", as_json=json)


def wait(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Names of jobs. Default: all.")] = None,
    state: State = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="Give up after so many seconds, exit code 3.")] = None,
    json: Json = False,
) -> None:
    """Wait until jobs of the queue are over. Exit code 1 if one of them did not finish."""
    folder, until = meant_folder(state), time.monotonic() + (math.inf if timeout is None else timeout)
    names = jobs or [job.name for job in status_of(folder).jobs if not job.is_over and job.state != SUSPENDED]
    while any(not job.is_over for job in the_jobs(folder, names)):
        if not is_locked(folder):
            raise UserError("the queue is down: `headway up` goes on")
        if time.monotonic() > until:
            _show_ends(the_jobs(folder, names), as_json=json)
            raise typer.Exit(3)
        time.sleep(POLL_SECONDS)
    found = the_jobs(folder, names)
    _show_ends(found, as_json=json)
    if any(job.state != "finished" for job in found):
        raise typer.Exit(1)


def _show_ends(jobs: Sequence[JobStatus], *, as_json: bool) -> None:
    if as_json:
        print(json_.dumps({"jobs": [{"name": job.name, "state": job.state, "note": job.note} for job in jobs]}))
        return
    for job in jobs:
        say(
            f"{job.name} {'is ' if job.state != 'failed' else ''}{job.state}{f': {near(job.note)}' if job.note else ''}"
        )


def _order_here(folder: Path, jobs: list[str], word: str, act: Callable[[JobId], object], *, as_json: bool) -> None:
    """Does it for each, if all may be ordered so."""
    for job in the_jobs(folder, jobs):
        if job.is_over and not (folder / "added" / f"{job.name}.json").exists():
            raise UserError(f"{job.name}: is not {word}: it is {job.state} already")
    need_added(folder, jobs)
    for name in jobs:
        act(JobId(name))
    _told(folder, jobs, word, as_json=as_json)


def _told(folder: Path, jobs: list[str], word: str, *, as_json: bool) -> None:
    if as_json:
        print(json_.dumps({"folder": str(folder), "jobs": jobs, "ordered": word}))
        return
    later = "" if is_locked(folder) else "; the queue is down: it counts from `headway up`"
    say(f"{', '.join(jobs)}: {'is' if len(jobs) == 1 else 'are'} to be {word}{later}")


def _suspended(added: AddedJob) -> AddedJob:
    return msgspec.structs.replace(added, suspended=True)


def _resumed(added: AddedJob) -> AddedJob:
    """Its times count from now on; a deadline stays where it is."""
    now, job = time.time_ns(), dict(added.job)
    deadline = job.get("deadline")
    if isinstance(deadline, int | float):
        job["deadline"] = max(0.001, deadline - (now - added.asked) / 1e9)
    return msgspec.structs.replace(added, suspended=False, job=job, asked=now if added.suspended else added.asked)


def _with_priority(priority: int, added: AddedJob) -> AddedJob:
    return msgspec.structs.replace(added, job={**added.job, "priority": priority})


# ── on a cluster ────────────────────────────────────────────────────────────────────────────────────────────


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
    from headway.kube.commands import OVER_PHASES, order, read_job

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
