"""Options that say how often a job starts again."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.core.restarts import RestartLimits

Losses = Annotated[
    int, typer.Option(min=0, help="Fail a job after more losses than this in a window without progress.")
]
LossWindow = Annotated[float, typer.Option(min=0, help="The seconds of that window.")]
LostNodeSeconds = Annotated[
    float, typer.Option(help="Wait this long for a silent node before its gangs start elsewhere.")
]
MaxRestarts = Annotated[int, typer.Option(min=0, help="Most losses and refusals that a job may request.")]
MinWindow = Annotated[float, typer.Option(min=0, help="Smallest window that a job may request, in seconds.")]
Refusals = Annotated[int, typer.Option(min=0, help="Fail a job after more refused starts in a row than this.")]


def restart_limits(losses: int, window: float, refusals: int, most: int, min_window: float) -> RestartLimits:
    return RestartLimits(losses=losses, window_seconds=window, refusals=refusals, max=most, min_window=min_window)
