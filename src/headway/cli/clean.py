"""`headway clean`: removes what earlier runs have set aside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.core.errors import UserError
from headway.local.state_folder import folder_of, remove, set_aside_before


def clean(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Jobs files. Default: all that ran in this folder.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="The folder that was given to `headway run --state`.")] = None,
) -> None:
    """Remove what `headway run` has set aside: old checkpoints, output and logs. What runs go on with stays."""
    for file in files or ():
        if not file.exists() and not folder_of(file).exists():
            raise UserError(f"{file}: does not exist")
    if state is not None:
        folders = [folder_of(Path(), state)]
    elif files:
        folders = [folder_of(file) for file in files]
    else:
        folders = sorted(path for path in Path(".headway").resolve().glob("*") if path.is_dir())
    count = total = 0
    for folder in folders:
        for aside in set_aside_before(folder):
            size = remove(aside)
            count, total = count + 1, total + size
            print(f"removed {aside} ({_amount(size)})")
    print(f"{_amount(total)} removed" if count else "nothing is set aside")


def _amount(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
