"""All commands by name. Each is imported when it is called, so that a missing extra matters only to its command."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from headway import __version__
from headway.cli.plain_help import PlainCommand, PlainGroup
from headway.core.errors import UserError

COMMANDS = {
    "run": "run",
    "add": "add",
    "remove": "remove",
    "clean": "clean",
    "simulate": "simulate",
    "compare": "compare",
    "experiment": "experiment",
    "generate": "generate",
    "replay": "replay",
    "why": "why",
    "schedule": "schedule",
    "submit": "submit",
    "jobs": "jobs",
    "suspend": "orders",
    "resume": "orders",
    "cancel": "orders",
    "logs": "logs",
    "lab": "lab",
    "predict": "predict",
    "learn": "learn",
    "tune": "tune",
}
"""Name to module in this package; the module has a function of that name, or an `app` with commands of its own."""

SENTENCES = {
    "run": "Train jobs for real on this machine. The same command again runs what is new, failed or unfinished.",
    "add": "Add jobs to a run, while it goes on or before its next start. A job that was added before is replaced.",
    "remove": "Take jobs that `headway add` added out again. One that runs is saved and stopped; its checkpoint stays.",
    "clean": "Remove what `headway run` has set aside: old checkpoints, output and logs. What runs go on with stays.",
    "simulate": "Run jobs in virtual time under one policy. `headway run` runs the same jobs file for real.",
    "compare": (
        "Compare policies on one trace: a table with confidence intervals and ratios to two bounds, a page with charts."
    ),
    "experiment": (
        "Reproduce a published claim: the whole grid with intervals, bounds, targets, and which jobs got worse."
    ),
    "generate": (
        "Write a synthetic workload. The same options give the same bytes. Simulate it with `headway simulate FILE`."
    ),
    "replay": "Replay a log. With the recorded policy, exit with code 1 if any plan differs.",
    "why": "Tell why a job is not running: what it needs, what is free, who holds it, and what would help.",
    "schedule": "Schedule TrainingJobs on Kubernetes.",
    "submit": "Submit the jobs of a file as TrainingJobs, at the submit times in the file.",
    "jobs": "List TrainingJobs: phase, nodes, progress, expected end, and why a job waits.",
    "suspend": "Suspend TrainingJobs on a cluster: they save, their pods go, and they wait until they are resumed.",
    "resume": "Resume suspended TrainingJobs on a cluster: they go on from their checkpoints when there is room.",
    "cancel": "Cancel TrainingJobs on a cluster for good. They save first. The objects stay until they are deleted.",
    "logs": "Print the log of a replica of a TrainingJob on a cluster, of its newest start.",
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


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"headway {__version__}")
        raise typer.Exit


def app_for(words: list[str]) -> typer.Typer:
    """The command line for these words: the command that the first one names, or else the list of commands."""
    return app_of(words[:1] if words and words[0] in COMMANDS else [])


def app_of(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands; with none of them, the names of all and a sentence about each."""
    app = typer.Typer(
        name="headway",
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help=HELP,
    )
    app.callback()(_whole)
    wanted = list(names)
    for name in wanted:
        _add(app, name)
    for name in () if wanted else COMMANDS:
        app.command(name, help=SENTENCES[name])(_nothing)
    return app


def _nothing() -> None:
    """In place of a command that nobody called."""


def _whole(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    pass


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
        app.command(name, cls=PlainCommand)(getattr(module, name))


def _needs_extra(name: str, missing: str) -> Callable[..., Any]:
    extra = EXTRAS.get(name, "train")

    def command() -> None:
        raise UserError(f"`headway {name}` needs {missing}: pip install 'headway[{extra}]'")

    command.__doc__ = f"Needs an extra: pip install 'headway[{extra}]'."
    return command
