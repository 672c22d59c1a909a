"""All commands by name. Each is imported when it is called, so that a missing extra matters only to its command."""

from __future__ import annotations

import importlib
from collections.abc import Callable
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
    """The command line: only the command that the first word names, or all of them."""
    app = typer.Typer(
        name="headway",
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help=HELP,
    )
    app.callback()(_whole)
    wanted = [words[0]] if words and words[0] in COMMANDS else list(COMMANDS)
    for name in wanted:
        _add(app, name)
    return app


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
