"""`headway predict evaluate`: how good the estimates are, on real curves and runs."""

from __future__ import annotations

import json as json_
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.cli.options import Json, Seed
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted
from headway.core.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Measure how good the estimates of remaining time are.")

AIM = 0.10
FROM = 0.1
"""The aim: a median error of at most this, from this share of the job on."""


@app.callback()
def predict() -> None:
    """Measure how good the estimates of remaining time are."""


@app.command()
def evaluate(
    traces: Annotated[
        Path | None, typer.Option(help="Read published traces from this folder. Default: synthetic data.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Simulate this many jobs, and use at most a fifth as many curves per model.")
    ] = 60,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare estimates of remaining time with the truth and with plain extrapolation, by share of the job done."""
    from headway.cli.screen.live import Bars
    from headway.estimates.evaluate import WAYS, evaluate_targets
    from headway.estimates.models.coefficients import BUILT_IN
    from headway.experiment.predict_curves import made_up_ways, read_ways
    from headway.experiment.predict_steps import METHODS, evaluate_steps
    from headway.sim.measured import load_profiles

    if traces is not None and not traces.is_dir():
        raise UserError(f"--traces {traces}: there is no such folder")
    ways = made_up_ways(seed) if traces is None else read_ways(traces)
    if not ways:
        raise UserError(f"--traces {traces}: there is no curve that reaches a target in mlperf or pollux/profiles")
    profiles = BUILT_IN if traces is None else load_profiles(traces)
    with Bars(["steps", "targets"], quiet=json) as bars:
        steps = evaluate_steps(profiles, jobs, seed, lambda share: bars.set(0, share))
        targets = evaluate_targets(ways, max(1, jobs // 5), lambda share: bars.set(1, share))
    source = "made up" if traces is None else traces.name
    result = {
        "source": source, "seed": seed, "aim": {"median": AIM, "from": FROM},
        "steps": {
            "jobs": steps.jobs, "resizes": steps.resizes,
            "as_it_is": _rows(steps.as_it_is, METHODS), "as_it_came": _rows(steps.as_it_came, METHODS),
        },
        "targets": {
            "jobs": targets.jobs, "curves": len(ways), "shares": _rows(targets.shares, WAYS),
            "models": {model: [_number(e) for e in errors] for model, errors in targets.models.items()},
        },
    }  # fmt: skip
    if json:
        print(json_.dumps(result))
    else:
        _show(result)


def _rows(table: Sequence[Sequence[Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    from headway.estimates.evaluate import SHARES

    return [
        {"done": share} | {
            method: {"jobs": e.count, "none": e.none, "median": _number(e.median), "p90": _number(e.p90)}
            for method, e in zip(methods, errors, strict=True)
        }
        for share, errors in zip(SHARES, table, strict=True)
    ]  # fmt: skip


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _show(result: Mapping[str, Any]) -> None:
    console, steps, targets = Console(), result["steps"], result["targets"]
    width = console.width
    console.print(_table(
        f"1. The total of steps is known: {steps['jobs']} jobs, {steps['resizes']} resizes, neighbours come and go.\n"
        "Error of remaining time, if everything stays as it is", steps["as_it_is"], width))  # fmt: skip
    console.print(_table("Error of remaining time as it came, with all later changes", steps["as_it_came"], width))
    console.print(_table(
        f"2. The job stops at a target: {targets['jobs']} jobs of {len(targets['models'])} models "
        f"({result['source']}).\nheadway: the model held out; like jobs: repeats of the same run are known",
        targets["shares"], width))  # fmt: skip
    for sentence in verdicts(result):
        console.print(plain(sentence), highlight=False)


def _table(title: str, rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    methods = [name for name in rows[0] if name != "done"]
    heads = [text for name in methods for text in (f"{name}\nmedian", "\np90", "\njobs")]
    cells: list[list[str | Text]] = []
    for row in rows:
        figures = [(_percent(row[name]["median"]), _percent(row[name]["p90"]), str(row[name]["jobs"]))
                   for name in methods]  # fmt: skip
        cells.append([f"{row['done']:.0%}", *(text for three in figures for text in three)])
    return fitted(title, [TableColumn("\ndone"), *map(TableColumn, heads)], cells, width)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}" if value < 10 else ">1000%"


def verdicts(result: Mapping[str, Any]) -> list[str]:
    """One sentence per question: is the aim reached, and where is it not."""
    found = []
    questions = {
        "known steps, as it is": (result["steps"]["as_it_is"], "headway"),
        "known steps, as it came": (result["steps"]["as_it_came"], "headway"),
        "target, model held out": (result["targets"]["shares"], "headway"),
        "target, like jobs known": (result["targets"]["shares"], "like jobs"),
    }
    for name, (rows, method) in questions.items():
        late = [row for row in rows if row["done"] >= FROM and row[method]["median"] is not None]
        missed = [f"{row['done']:.0%} ({row[method]['median']:.0%})" for row in late if row[method]["median"] > AIM]
        aim = f"median at most {AIM:.0%} from {FROM:.0%} on"
        if not late:
            found.append(f"{name}: {aim}: no data")
        else:
            found.append(f"{name}: {aim}: " + (f"not reached at {', '.join(missed)}" if missed else "reached"))
    return found
