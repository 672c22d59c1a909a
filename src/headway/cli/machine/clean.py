"""`headway clean`: removes what earlier runs have set aside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.machine.queue import queue_home
from headway.cli.screen.show import near
from headway.core.errors import UserError
from headway.local.state_folder import folder_of, pieces_of, remove, set_aside_before, size_of


def clean(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Jobs files. Default: all that ran in this folder, else the queue."),
    ] = None,
    state: Annotated[Path | None, typer.Option(help="The folder that was given to `headway run --state`.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove what `headway run` has set aside: old checkpoints, output and logs. It lists all, and asks first."""
    for file in files or ():
        if not file.exists() and not folder_of(file).exists():
            raise UserError(f"{file}: does not exist")
    if state is not None:
        folders = [folder_of(Path(), state)]
    elif files:
        folders = [folder_of(file) for file in files]
    else:
        here = sorted(path for path in Path(".headway").resolve().glob("*") if path.is_dir())
        folders = here or [queue_home()]
    found = [aside for folder in folders for aside in set_aside_before(folder)]
    if not found:
        print("nothing is set aside")
        return
    for aside in found:
        print(f"{near(str(aside))}: {', '.join(pieces_of(aside))} ({_amount(size_of(aside))})")
    if not yes and not sys.stdin.isatty():
        raise UserError(f"{_folders(found)} would be removed; add --yes to do it")
    if yes or typer.confirm(f"remove {_folders(found)}?"):
        print(f"{_amount(sum(remove(aside) for aside in found))} removed")
    else:
        print("nothing was removed")


def _folders(found: list[Path]) -> str:
    return f"{len(found)} folder{'s' if len(found) > 1 else ''}"


def _amount(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
