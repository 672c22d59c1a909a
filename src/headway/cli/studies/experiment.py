"""`headway experiment`: a published claim, reproduced on a fixed grid."""

from __future__ import annotations

import json as json_
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.cli.options import ExecutorName, Json, Processes, Report
from headway.cli.screen.asides import asides
from headway.cli.screen.live import Bars
from headway.cli.screen.say import say
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted, parts
from headway.cli.studies.learning import learning_curve
from headway.cli.studies.learning_proof import learning
from headway.cli.studies.native_proof import native
from headway.cli.wiring import command_line, seeds_of, writable
from headway.compare.executors import make_executor, running
from headway.compare.kept_runs import KeptRuns
from headway.compare.perform import Workers
from headway.core.errors import UserError
from headway.experiment.case import Cell, Experiment
from headway.experiment.gather import result, run
from headway.experiment.page import amount, page, value_of, verdict
from headway.experiment.registry import EXPERIMENTS
from headway.experiment.trace_folder import with_traces

STUDIES: Mapping[str, Callable[..., None]] = {"learning-curve": learning_curve, "learning": learning, "native": native}
"""Experiments of another form: one run begins with what others have taught, or is made on a real API server."""


def experiment(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join((*EXPERIMENTS, *STUDIES))}.")],
    seeds: Annotated[str, typer.Option(help="Use other seeds: a number of seeds, or a list such as 1,5,9.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Run fewer jobs, cells and seeds: about a minute.")] = False,
    report: Report = None,
    jobs: Processes = 0,
    executor: ExecutorName = "",
    repeats: Annotated[int, typer.Option(min=1, help="Of native: make each live run so often, for the noise.")] = 1,
    times: Annotated[
        float, typer.Option(min=0, help="Of native: let a small slice run in plain time, so many times as fast.")
    ] = 0.0,
    slices: Annotated[
        str, typer.Option(help="Of native: only slices that begin so, such as `itp half`; several with commas.")
    ] = "",
    by: Annotated[str, typer.Option(help="Of native: only these contenders, such as `podgroup,headway`.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat runs that an earlier call has finished.")] = False,
    json: Json = False,
) -> None:
    """Reproduce a published claim: the whole grid with intervals, bounds, targets, and which jobs got worse.

    Each finished run is kept in the user's cache folder. After Ctrl-C or a kill, the same command continues from there.
    """
    writable(report, "--report")
    if name in STUDIES:
        more = {"repeats": repeats, "times": times, "slices": slices, "by": by} if name == "native" else {}
        with _workers(executor, jobs) as workers:
            STUDIES[name](quick=quick, workers=workers, as_json=json, report=report, fresh=fresh, **more)
        return
    if name not in EXPERIMENTS:
        offer = ", ".join((*EXPERIMENTS, *STUDIES))
        raise UserError(f"experiment {name}: there is no such experiment; choose one of {offer}")
    chosen = EXPERIMENTS[name]
    size = chosen.quick if quick else chosen.full
    size = replace(size, seeds=seeds_of(seeds, first=1)) if seeds else size
    store, cells = _kept(fresh=fresh), _cells(chosen, quick=quick)
    try:
        with asides(), _workers(executor, jobs) as workers, Bars([name], quiet=json) as bars:
            found = run(chosen, cells, size, workers, lambda share: bars.set(0, share), store)
    except KeyboardInterrupt:
        if store is not None:
            say("finished runs are kept: the same command without --fresh continues from there", error=True)
        raise
    told = result(chosen, found, size)
    if report is not None:
        report.write_text(page(chosen, told, command_line()), encoding="utf-8")
    if json:
        print(json_.dumps(told))
        return
    _show(chosen, told)
    if report is not None:
        print(f"report  {report}")


def _cells(chosen: Experiment, *, quick: bool) -> Sequence[Cell]:
    wanted = chosen.quick_cells if quick else chosen.cells
    found = with_traces(chosen, wanted)
    if left_out := [cell.name for cell in wanted if cell not in found]:
        say(f"left out, as their traces are not here (`headway traces check`): {'; '.join(left_out)}", error=True)
    return found


@contextmanager
def _workers(executor: str, jobs: int) -> Iterator[Workers]:
    """Processes of this machine, or the executor of that name until the experiment has ended."""
    processes = jobs or len(os.sched_getaffinity(0))
    if not executor:
        yield processes
        return
    with running(make_executor(executor, processes)) as pool:
        yield pool


def _kept(*, fresh: bool) -> KeptRuns | None:
    try:
        return KeptRuns.of_user(fresh=fresh)
    except OSError as error:
        say(f"finished runs are not kept: {error}", error=True)
        return None


def _show(chosen: Experiment, told: dict[str, Any]) -> None:
    console = Console()
    for cell in told["cells"]:
        rows: list[list[str | Text]] = [
            [label, *(value_of(figure, figures[figure.name])[0] for figure in chosen.figures)]
            for label, figures in cell["policies"].items()
        ]
        bounds = [figure.said(cell["bound"][figure.name]) if figure.name in cell["bound"] else ""
                  for figure in chosen.figures]  # fmt: skip
        rows.append([Text(text, style="dim") for text in ("bound", *bounds)])
        names = ["policy", *(figure.title for figure in chosen.figures)]
        for table in parts(f"{cell['load']}, {cell['mix']}", names, rows, console.width):
            console.print(table)
    console.print(_targets(told, console.width))
    for line in told["analysis"]:
        console.print(Padding(plain(line), (0, 0, 1, 1)), highlight=False, style="dim")


def _targets(told: dict[str, Any], width: int) -> Table:
    columns = [TableColumn("target", is_text=True), *map(TableColumn, ("to reach", "median", "cells")),
               TableColumn("", is_text=True)]  # fmt: skip
    rows: list[list[str | Text]] = [
        [
            target["what"], ("≥ " if target["at_least"] else "≤ ") + amount(target, "reach"), amount(target, "median"),
            f"{target['cells_reached']} of {target['cells']}", verdict(target),
        ]
        for target in told["targets"]
    ]  # fmt: skip
    return fitted(f"{told['title']}: targets", columns, rows, width)
