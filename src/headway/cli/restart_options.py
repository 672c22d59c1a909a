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
MostRestarts = Annotated[int, typer.Option(min=0, help="Let jobs ask for at most so many losses and refusals.")]
LeastWindow = Annotated[float, typer.Option(min=0, help="Let jobs ask for a window of at least so many seconds.")]
Refusals = Annotated[int, typer.Option(min=0, help="Fail a job after more refused starts in a row than this.")]


def restart_limits(losses: int, window: float, refusals: int, most: int, least_window: float) -> RestartLimits:
    return RestartLimits(losses=losses, window_seconds=window, refusals=refusals, most=most, least_window=least_window)
