"""Completion for shells. Example: `source <(headway --completion bash)`, then `headway sus<Tab>`.

The shell asks the program itself. Which command is meant stands in a variable then, not in the arguments.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from enum import StrEnum
from typing import Annotated

import typer

from headway import __version__
from headway.cli.screen.plain_help import PlainGroup


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def asked_by(program: str) -> str:
    """The variable by which a shell asks."""
    return f"_{program.replace('-', '_').upper()}_COMPLETE"


def typed(program: str, words: list[str]) -> list[str]:
    """The words after the program's name: those of the line that a shell wants completed, else those given."""
    if not os.environ.get(asked_by(program)):
        return words
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    with suppress(ValueError):  # a quote is open
        return shlex.split(line)[1:]
    return line.split()[1:]


def _called(context: typer.Context) -> str:
    return "kubectl-headway" if (context.find_root().info_name or "").startswith("kubectl") else "headway"


def _tell_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        print(f"{_called(context)} {__version__}")
        raise typer.Exit


def _show(context: typer.Context, shell: Shell | None) -> None:
    """Prints the script for the program whose help says `Usage: kubectl headway` or `Usage: headway`."""
    if shell is None:
        return
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    program = _called(context)
    print(get_completion_script(prog_name=program, complete_var=asked_by(program), shell=shell.value))
    raise typer.Exit


Completion = Annotated[
    Shell | None,
    typer.Option(
        "--completion", callback=_show, is_eager=True,
        help="Print a script by which this shell completes commands and options, and end.",
    ),
]  # fmt: skip


def _whole(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_tell_version, is_eager=True)
    ] = False,
    completion: Completion = None,
) -> None:
    pass


def program(about: str) -> typer.Typer:
    """A command line without commands yet."""
    app = typer.Typer(
        name="headway", cls=PlainGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
        help=about,
    )  # fmt: skip
    app.callback()(_whole)
    return app
