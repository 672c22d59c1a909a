"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TraceFile = Annotated[Path, typer.Argument(help="A jobs file (YAML) or a published trace.", metavar="TRACE")]
PolicyName = Annotated[str, typer.Option("--policy", help="A policy by name, or mine.py:function.")]
Set = Annotated[list[str], typer.Option("--set", help="A policy's setting, name=value; may be given again.")]
Queues = Annotated[
    Path | None, typer.Option(help="A YAML file of queues: quota, what each may borrow and lends, weight.")
]
Cluster = Annotated[
    str,
    typer.Option(help="Nodes: 32x4 (nodes x GPUs), 2x4cpu,16Gi,1gpu, or a file of nodes; else the trace's own."),
]
Format = Annotated[str, typer.Option("--format", help="The trace's format; guessed where it can be.")]
Estimates = Annotated[str, typer.Option(help="Source of remaining times: oracle, declared, progress, linear, none.")]
Seed = Annotated[int, typer.Option(help="For whatever is random; also shuffles jobs submitted at the same moment.")]
Log = Annotated[Path | None, typer.Option(help="Write the run's log here; with .gz it is compressed.")]
World = Annotated[
    Path | None,
    typer.Option(help="A YAML file whose `simulate` section says what things cost, how fast jobs are and what fails."),
]
Report = Annotated[Path | None, typer.Option(help="Write a page with table and charts here: one file, no network.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Processes = Annotated[int, typer.Option("--jobs", "-j", help="Processes; 0 means as many as cores.", min=0)]
