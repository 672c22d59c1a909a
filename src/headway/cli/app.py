"""All commands by name. Each is imported when it is called, so that a missing extra matters only to its command."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import typer

from headway.cli.screen.completion import program
from headway.cli.screen.plain_help import PlainCommand, PlainGroup
from headway.core.errors import UserError

COMMANDS = {
    "run": "machine.run",
    "up": "machine.up",
    "down": "machine.up",
    "add": "machine.add",
    "clean": "machine.clean",
    "simulate": "studies.simulate",
    "compare": "studies.compare",
    "experiment": "studies.experiment",
    "traces": "studies.traces",
    "generate": "studies.generate",
    "replay": "studies.replay",
    "why": "jobs.why",
    "eta": "jobs.eta",
    "schedule": "cluster.schedule",
    "submit": "cluster.submit",
    "jobs": "jobs.jobs",
    "suspend": "jobs.orders",
    "resume": "jobs.orders",
    "cancel": "jobs.orders",
    "logs": "jobs.logs",
    "move-up": "jobs.orders",
    "retry": "jobs.orders",
    "wait": "jobs.orders",
    "lab": "cluster.lab",
    "predict": "studies.predict",
    "learn": "learn.learn",
    "tune": "learn.tune",
}
"""Name to module in this package; the module has a function of that name, or an `app` with commands of its own."""

SENTENCES = {
    "run": "Train jobs for real on this machine. The same command again runs what is new, failed or unfinished.",
    "up": "Start the queue of this machine in the background, or go on with it. Jobs are added with `headway add`.",
    "down": "End the queue of this machine: every job that can save saves and stops. `headway up` goes on.",
    "add": "Add a command, or the jobs of files, to the queue of this machine or to a run that goes on.",
    "clean": "Remove what `headway run` has set aside: old checkpoints, output and logs. It lists all, and asks first.",
    "simulate": "Run jobs in virtual time under one policy. `headway run` runs the same jobs file for real.",
    "compare": (
        "Compare policies on one trace: a table with confidence intervals and ratios to two bounds, a page with charts."
    ),
    "experiment": (
        "Reproduce a published claim: the whole grid with intervals, bounds, targets, and which jobs got worse."
    ),
    "traces": "Tell where published traces come from, make the folder that experiments read, and check it.",
    "generate": (
        "Write a synthetic workload. The same options give the same bytes. Simulate it with `headway simulate FILE`."
    ),
    "replay": "Replay a log. With the recorded policy, exit with code 1 if any plan differs.",
    "why": "Tell why a job is not running: what it needs, what is free, who holds it, and what would help.",
    "eta": "Tell when jobs start and when they are done, as times of day with ranges.",
    "schedule": "Schedule TrainingJobs on Kubernetes.",
    "submit": "Submit the jobs of a file as TrainingJobs, at the submit times in the file.",
    "jobs": "List the jobs of the queue, or of a cluster: state, progress, and why a job waits.",
    "suspend": "Suspend jobs: they save, stop, and wait until they are resumed. In the queue, or on a cluster.",
    "resume": "Resume suspended jobs: they go on from their checkpoints. In the queue, or on a cluster.",
    "cancel": "Cancel jobs. They save first. In the queue their checkpoints stay; on a cluster the objects stay.",
    "logs": "Print what a replica of a job prints: in the queue, or on a cluster with its options or KUBECONFIG.",
    "move-up": "Move waiting jobs of the queue up: their priority becomes higher than that of all others that wait.",
    "retry": "Run jobs of the queue again that failed or were cancelled, from their checkpoints.",
    "wait": "Wait until jobs of the queue are over. Exit code 1 if one of them did not finish.",
    "lab": "Run a real Kubernetes on this machine, with simulated and real nodes.",
    "predict": "Measure how good the estimates of remaining time are.",
    "learn": "Learn from finished jobs, for the runs to come.",
    "tune": "Tune the settings of `headway`, the default policy, on windows of your own log; try them on later ones.",
}
"""What `headway --help` says of each command: the first sentences of its own help, so that nothing need be imported."""

EXTRAS = {
    "schedule": "kube",
    "submit": "kube",
    "jobs": "kube",
    "suspend": "kube",
    "resume": "kube",
    "cancel": "kube",
    "logs": "kube",
    "lab": "lab",
}
HELP = "A scheduler for deep-learning training that knows how much headway each job is making."


def app_for(words: list[str]) -> typer.Typer:
    """The command line for these words: the command that the first one names, or else the list of commands."""
    return app_of(words[:1] if words and words[0] in COMMANDS else [])


def app_of(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands; with none of them, the names of all and a sentence about each."""
    app = program(HELP)
    wanted = list(names)
    for name in wanted:
        _add(app, name)
    for name in () if wanted else COMMANDS:
        app.command(name, help=SENTENCES[name])(_nothing)
    return app


def _nothing() -> None:
    """In place of a command that nobody called."""


def _add(app: typer.Typer, name: str) -> None:
    try:
        module = importlib.import_module(f"headway.cli.{COMMANDS[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "headway":
            raise
        app.command(name, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
            _needs_extra(name, error.name or "")
        )
        return
    if hasattr(module, "app"):
        for command in module.app.registered_commands:
            command.cls = PlainCommand
        app.add_typer(module.app, name=name, cls=PlainGroup)
    else:
        app.command(name, cls=getattr(module, "COMMAND", PlainCommand))(getattr(module, name.replace("-", "_")))


def _needs_extra(name: str, missing: str) -> Callable[..., Any]:
    extra = EXTRAS.get(name, "train")

    def command() -> None:
        raise UserError(f"`headway {name}` needs {missing}: pip install 'headway[{extra}]'")

    command.__doc__ = f"Needs an extra: pip install 'headway[{extra}]'."
    return command
