"""Options that say how often a job starts again."""

from __future__ import annotations

from typing import Annotated

import typer

Losses = Annotated[
    int, typer.Option(min=0, help="Fail a job after more losses than this in a window without progress.")
]
LossWindow = Annotated[float, typer.Option(min=0, help="The seconds of that window.")]
Refusals = Annotated[int, typer.Option(min=0, help="Fail a job after more refused starts in a row than this.")]
