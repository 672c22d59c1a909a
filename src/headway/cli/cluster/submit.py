"""`headway submit`: submits the jobs of a file to a cluster, each at its submit time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.machine.jobs_watch import some
from headway.cli.options import Context, Kubeconfig, access_for, need_extra
from headway.cli.wiring import warn
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.text import clean
from headway.workload.deadlines import deadline_warnings
from headway.workload.jobsfile import load

if TYPE_CHECKING:
    from headway.kube.api.access import Access
    from headway.kube.api.client import Client

Submission = tuple[Path, Job]
VERDICT_SECONDS = 3.0
"""So long a verdict on deadlines is waited for."""
READY_SECONDS = 20.0


def submit(
    files: Annotated[list[Path], typer.Argument(help="Jobs files (YAML), as for run and simulate.")],
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Submit to this namespace. Default: the context's.")
    ] = "",
    directory: Annotated[
        str, typer.Option(help="Run commands in this folder of the container; `.` is the file's own folder.")
    ] = "",
    user: Annotated[
        str,
        typer.Option(help="Submit in the name of this user. Default: the file's, else you. Needs a right: submit-for."),
    ] = "",
    at_once: Annotated[bool, typer.Option("--at-once", help="Submit all jobs now; ignore their submit times.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all jobs are over. Exit code 1 if one did not succeed.")
    ] = False,
) -> None:
    """Submit the jobs of a file as TrainingJobs, at the submit times in the file."""
    need_extra()
    jobs = [(path, replace(job, user=user or job.user)) for path in files for job in load(path).jobs]
    seen: dict[str, Path] = {}
    for path, job in jobs:
        if job.id in seen:
            raise UserError(
                f"{path}: job {job.id!r}: field name: {seen[job.id]} has a job of the same name; rename one"
            )
        seen[job.id] = path
    if directory not in ("", ".") and not directory.startswith("/"):
        raise UserError(
            f"--directory {directory}: must be an absolute path in the container, or `.` for the file's own folder"
        )
    warn(deadline_warnings(job for _, job in jobs))
    for name in ("retries", "on_end", "on_failure"):
        ignored = [job.id for _, job in jobs if getattr(job, name)]
        if ignored:
            warn([f"field {name}: counts on this machine only, not on Kubernetes: {some(ignored)}"])
    access = access_for(kubeconfig, context)
    where = namespace or access.namespace
    failed = asyncio.run(_submit(access, where, jobs, directory=directory, at_once=at_once, wait=wait))
    if failed:
        raise typer.Exit(1)


async def _submit(
    access: Access, namespace: str, jobs: list[Submission], *, directory: str, at_once: bool, wait: bool
) -> bool:
    from headway.kube.api.client import Client

    began = time.time()
    async with Client(access) as client:
        me = "" if all(job.user for _, job in jobs) else await _own_name(client)
        for path, job in sorted(jobs, key=lambda entry: entry[1].submit):
            pause = 0.0 if at_once else began + job.submit - time.time()
            if pause > 0:
                await asyncio.sleep(pause)
            inside = str(path.resolve().parent) if directory == "." else directory
            asked = replace(job, user=job.user or me)
            recorded = await _post(client, namespace, path, asked, inside)
            print(f"{time.time() - began:7.1f} s  submitted {job.id}{_instead(asked.user, recorded)}", flush=True)
        await _verdicts(client, namespace, {job.id for _, job in jobs if job.deadline is not None}, began)
        return await _wait(client, namespace, {job.id for _, job in jobs}, began) if wait else False


async def _verdicts(client: Client, namespace: str, names: set[str], began: float) -> None:
    """Prints of jobs with a deadline whether they will be in time, as soon as the scheduler says so; it may be away."""
    from headway.kube.api.errors import ApiError
    from headway.kube.commands import list_jobs

    give_up, told = time.monotonic() + VERDICT_SECONDS, dict[str, str]()
    while names - told.keys() and time.monotonic() < give_up:
        await asyncio.sleep(0.25)
        try:
            found = await list_jobs(client, namespace)
        except ApiError:
            return
        last = time.monotonic() + 0.5 >= give_up
        for row in found:
            said = next((one for one in row.explained if one.startswith("in time: ")), "")
            if row.name in names and (said or (last and row.deadline)):
                told.setdefault(row.name, said or row.deadline)
    for name, saying in sorted(told.items()):
        print(f"{time.time() - began:7.1f} s  {name}: {clean(saying.removeprefix('in time: '))}", flush=True)


async def _own_name(client: Client) -> str:
    """The name by which the API server knows who runs this command; empty if it does not tell."""
    from headway.kube.api.client import loads
    from headway.kube.api.errors import ApiError

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = loads(await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review))
    except ApiError:
        return ""
    return str(answer.get("status", {}).get("userInfo", {}).get("username", ""))


def _instead(asked: str, recorded: str) -> str:
    if recorded == asked:
        return ""
    return clean(f" for user {recorded}, not {asked}: who submits for others needs the verb submit-for")


async def _post(client: Client, namespace: str, path: Path, job: Job, directory: str) -> str:
    """Returns the user that the cluster recorded."""
    from headway.kube.api.client import loads
    from headway.kube.api.errors import ApiError, Conflict, NotFound
    from headway.kube.api.objects import API_VERSION
    from headway.kube.intake.spec import manifest_of

    body = manifest_of(job, namespace, directory=directory, submitted_at=time.time())
    try:
        answer = await _create(client, f"/apis/{API_VERSION}/namespaces/{namespace}/trainingjobs", body)
        return str(loads(answer).get("spec", {}).get("user", ""))
    except Conflict as error:
        raise UserError(
            f"{path}: job {job.id!r}: field name: namespace {namespace!r} has such a job already; rename or delete it"
        ) from error
    except NotFound as error:
        raise UserError(
            f"the cluster has no namespace {namespace!r} or no TrainingJobs: {error}; run `headway schedule --install`"
        ) from error
    except ApiError as error:
        raise UserError(f"{path}: job {job.id!r}: the cluster refuses the job: {error}") from error


async def _create(client: Client, path: str, body: dict[str, Any]) -> bytes:
    """Tries again while the server says that it is not ready: after its start it takes seconds to know TrainingJobs."""
    from headway.kube.api.errors import Unreachable

    give_up = time.monotonic() + READY_SECONDS
    while True:
        try:
            return await client.post(path, body)
        except Unreachable as error:
            if error.status not in (429, 503) or time.monotonic() > give_up:
                raise
        await asyncio.sleep(0.5)


async def _wait(client: Client, namespace: str, names: set[str], began: float) -> bool:
    """Waits until all jobs are over and prints each end. Returns whether one did not succeed."""
    from headway.kube.api.errors import ApiError
    from headway.kube.commands import OVER_PHASES, list_jobs

    bad, silent_since = False, None
    while names:
        await asyncio.sleep(0.5)
        try:
            found = {row.name: row for row in await list_jobs(client, namespace)}
        except ApiError as error:
            silent_since = silent_since or time.time()
            if time.time() - silent_since > 60:
                raise UserError(f"the API server did not answer for 60 seconds: {error}") from error
            continue
        silent_since = None
        for name in sorted(names):
            row = found.get(name)
            if row is None or row.phase in OVER_PHASES:
                phase = "Deleted" if row is None else row.phase
                why = f": {row.message}" if row is not None and row.message else ""
                print(f"{time.time() - began:7.1f} s  {phase.lower()} {name}{clean(why)}", flush=True)
                bad |= phase != "Succeeded"
                names.discard(name)
    return bad
