"""`headway generate`: write a synthetic workload with a given load."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headway.cli.options import Json, Seed
from headway.cli.screen.say import say
from headway.core.errors import UserError
from headway.core.text import lasting
from headway.jobspec import meant
from headway.workload.cluster import open_cluster
from headway.workload.generate import Room
from headway.workload.generate import generate as make
from headway.workload.settings import NAMES, Settings
from headway.workload.trace import Trace
from headway.workload.write import write_workload


def generate(
    file: Annotated[
        Path, typer.Argument(help="The file to write: .yaml (includes the nodes), .jsonl or .csv; .gz compresses.")
    ],
    cluster: Annotated[
        str, typer.Option(help="Set the nodes that the load is for: 32x4 (nodes x GPUs), 8x4gpu,32cpu or a file.")
    ] = "16x4",
    jobs: Annotated[int, typer.Option(help="Set the number of jobs.")] = 200,
    load: Annotated[
        float, typer.Option(help="Set demand over capacity while jobs arrive. Above 1 the queue grows.")
    ] = 0.9,
    arrivals: Annotated[str, typer.Option(help="Choose poisson, bursty, diurnal or at-once.")] = "poisson",
    sizes: Annotated[
        str, typer.Option(help="Choose single, philly, itp, balanced, wide, or shares such as 1:0.5,4:0.3,8:0.2.")
    ] = "balanced",
    durations: Annotated[str, typer.Option(help="Choose lognormal, pareto, bimodal or constant.")] = "lognormal",
    settings: Annotated[
        list[str], typer.Option("--set", help="Set any other setting, name=value, such as elastic=0.3. Repeatable.")
    ] = [],  # noqa: B006  typer copies it
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE if it has other jobs in it.")] = False,
    json: Json = False,
) -> None:
    """Write a synthetic workload. The same options give the same bytes. Simulate it with `headway simulate FILE`.

    More settings for --set are explained in docs/workloads.md: deadlines, elastic, longest_seconds, users and others.
    """
    given = {
        "jobs": jobs, "load": load, "arrivals": arrivals, "sizes": sizes, "durations": durations, "seed": seed,
        **_others(settings),
    }  # fmt: skip
    nodes = open_cluster(cluster)
    trace = make(msgspec.convert(given, Settings), nodes)
    write_workload(trace, file, overwrite=force)
    if json:
        print(json_.dumps(_summary(file, trace)))
        return
    last = lasting(trace.jobs[-1].submit)
    room = Room.of(nodes)
    say(f"{file}: {jobs} jobs that arrive within {last}, for {room.workers} {room.kind}: load {load:g}")
    for note in trace.notes[1:]:
        say(f"note: {note}")


def _others(settings: list[str]) -> dict[str, object]:
    chosen: dict[str, object] = {}
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals or name not in NAMES:
            raise UserError(f"--set {item}: there is no such setting{meant(name, NAMES)}")
        try:
            chosen[name] = msgspec.convert(value, type(getattr(Settings(), name)), strict=False)
        except msgspec.ValidationError as error:
            raise UserError(f"--set {item}: {error}") from error
    return chosen


def _summary(file: Path, trace: Trace) -> dict[str, object]:
    return {
        "file": str(file), "name": trace.name, "jobs": len(trace.jobs), "last_submit": trace.jobs[-1].submit,
        "replicas": sum(job.replicas for job in trace.jobs), "notes": list(trace.notes),
    }  # fmt: skip
