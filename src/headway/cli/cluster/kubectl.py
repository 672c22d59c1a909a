"""`kubectl headway ...`: what a user does with TrainingJobs, in the words and with the options of kubectl.

kubectl runs any program of the name `kubectl-headway` so. The cluster is that of the current context.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Context, Json, Kubeconfig, Namespace
from headway.cli.screen.completion import asked_by, program, typed
from headway.cli.screen.plain_help import PlainCommand

PROGRAM = "kubectl-headway"
Job = Annotated[str, typer.Argument(help="The job's name.")]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of jobs.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]


def submit(
    files: Annotated[list[Path], typer.Argument(help="Jobs files (YAML).")],
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    directory: Annotated[
        str, typer.Option(help="Run commands in this folder of the container; `.` is the file's own folder.")
    ] = "",
    at_once: Annotated[bool, typer.Option("--at-once", help="Submit all jobs now; ignore their submit times.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all jobs are over.")] = False,
) -> None:
    """Submit the jobs of a file as TrainingJobs."""
    from headway.cli.cluster.submit import submit as submit_

    submit_(files, kubeconfig, context, namespace, directory=directory, at_once=at_once, wait=wait)


def jobs(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    json: Json = False,
) -> None:
    """List jobs: state, progress, and why a job waits."""
    from headway.cli.jobs.jobs import jobs as jobs_

    jobs_(kubeconfig, context, "all" if everywhere else namespace, kube=True, json=json)


def why(
    job: Job, namespace: Namespace = "", context: Context = "", kubeconfig: Kubeconfig = None, json: Json = False
) -> None:
    """Tell why a job is not running: what it needs, what is free, who holds it, and what would help."""
    from headway.cli.cluster.why_cluster import why_on_cluster

    why_on_cluster(job, namespace, kubeconfig, context, as_json=json)


def eta(
    job: Annotated[str, typer.Argument(help="The job's name; default: all jobs that are not over.")] = "",
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    json: Json = False,
) -> None:
    """Tell when jobs that wait or train start and are done, as the scheduler believes."""
    from headway.cli.cluster.eta_cluster import eta_on_cluster

    eta_on_cluster(job, "all" if everywhere else namespace, kubeconfig, context, as_json=json)


def cancel(
    jobs: Jobs, namespace: Namespace = "", context: Context = "", kubeconfig: Kubeconfig = None, json: Json = False
) -> None:
    """Cancel jobs. They save first; the objects stay."""
    from headway.cli.jobs.orders import cancel as cancel_

    cancel_(jobs, namespace, kubeconfig, context, kube=True, json=json)


def suspend(
    jobs: Jobs, namespace: Namespace = "", context: Context = "", kubeconfig: Kubeconfig = None, json: Json = False
) -> None:
    """Suspend jobs: they save, stop, and wait until they are resumed."""
    from headway.cli.jobs.orders import suspend as suspend_

    suspend_(jobs, namespace, kubeconfig, context, kube=True, json=json)


def resume(
    jobs: Jobs, namespace: Namespace = "", context: Context = "", kubeconfig: Kubeconfig = None, json: Json = False
) -> None:
    """Resume suspended jobs: they go on from their checkpoints."""
    from headway.cli.jobs.orders import resume as resume_

    resume_(jobs, namespace, kubeconfig, context, kube=True, json=json)


COMMANDS = (submit, jobs, why, eta, cancel, suspend, resume)
HELP = "Deep-learning training on this cluster: submit TrainingJobs, look at them, suspend and cancel them."


def app() -> typer.Typer:
    made = program(HELP)
    for one in COMMANDS:
        made.command(one.__name__, cls=PlainCommand)(one)
    return made


def main() -> None:
    """The program `kubectl-headway`."""
    from headway.cli import ended_well

    typed(PROGRAM, [])
    with ended_well():
        app()(prog_name="kubectl headway", complete_var=asked_by(PROGRAM))


def complete() -> None:
    """The program `kubectl_complete-headway`: kubectl asks it what may come next, the last word is not whole yet."""
    words = ["kubectl-headway", *sys.argv[1:]]
    os.environ |= {
        asked_by(PROGRAM): "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    try:
        main()
    finally:
        print(":4")  # names of files do not fit
