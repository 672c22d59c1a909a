"""`headway compare`: several policies, the same trace, the same seeds, all cores."""

from __future__ import annotations

import json as json_
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import (
    BeliefsFile,
    Cluster,
    Estimates,
    Format,
    From,
    Head,
    Json,
    Processes,
    Queues,
    Report,
    TraceFile,
    World,
)
from headway.cli.screen.asides import asides
from headway.cli.screen.live import Bars
from headway.cli.studies.comparison import show_comparison
from headway.cli.wiring import (
    beliefs_for,
    check_estimates,
    command_line,
    cut,
    make_policy,
    queue_setting,
    seeds_of,
    warn_of_claims,
    writable,
)
from headway.compare.perform import Task
from headway.compare.scenario import read_scenario
from headway.compare.side_by_side import bound_tasks, side_by_side
from headway.compare.table import Compared
from headway.core.errors import UserError


def compare(
    file: TraceFile,
    policies: Annotated[str, typer.Option(help="Compare these: names separated by commas, or mine.py:function.")],
    baseline: Annotated[str, typer.Option(help="Measure the others against this policy. Default: the first.")] = "",
    seeds: Annotated[str, typer.Option(help="Run this many seeds, or a list such as 1,5,9.")] = "1",
    settings: Annotated[
        list[str], typer.Option("--set", help="Set one policy's setting, policy.name=value. Repeatable.")
    ] = [],  # noqa: B006  typer copies it
    queues: Queues = None,
    cluster: Cluster = "",
    format_: Format = "",
    from_: From = "",
    head: Head = 0,
    estimates: Estimates = "declared",
    beliefs: BeliefsFile = None,
    world: World = None,
    bounds: Annotated[bool, typer.Option(help="Also run clairvoyant srtf and srsf, as a bound.")] = True,
    report: Report = None,
    jobs: Processes = 0,
    json: Json = False,
) -> None:
    """Compare policies on one trace: a table with confidence intervals and ratios to two bounds, a page with charts."""
    check_estimates(estimates)
    known = beliefs_for(estimates, beliefs)
    writable(report, "--report", [file, world, beliefs, queues])
    names = _names(policies)
    chosen = _settings(names, settings, queue_setting(queues))
    numbers = seeds_of(seeds)
    if baseline and baseline not in names:
        raise UserError(f"--baseline {baseline}: it is not among the compared policies ({', '.join(names)})")
    scenario = replace(cut(read_scenario(file, format_, cluster, world, estimates), from_, head), beliefs=known)
    warn_of_claims(queue_setting(queues), scenario.trace.jobs)
    tasks = [
        Task(
            policy=name, make=partial(make_policy, name, chosen[name]), settings=chosen[name], seed=seed,
            picture=report is not None and seed == numbers[0],
        )
        for name in names for seed in numbers
    ]  # fmt: skip
    every = [*tasks, *(bound_tasks(scenario, tasks) if bounds else [])]
    labels = [f"{task.policy}, seed {task.seed}" if task.seed else task.policy for task in every]
    with asides(), Bars(labels, quiet=json) as bars:
        found = side_by_side(
            scenario, tasks, baseline or names[0], bounds=bounds, processes=jobs or len(os.sched_getaffinity(0)),
            tell=bars.set,
        )  # fmt: skip
    if report is not None:
        from headway.compare.report import write
        from headway.compare.report_text import subject_of

        write(report, subject_of(scenario, found, command_line()))
    _print(found, report, as_json=json)


def _print(found: Compared, report: Path | None, *, as_json: bool) -> None:
    if as_json:
        print(json_.dumps(found.as_json()))
        return
    show_comparison(found)
    if report is not None:
        print(f"report  {report}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError("--policies: name at least one policy")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserError(f"--policies: {twice} is named twice")
    return names


def _settings(names: list[str], settings: list[str], shared: list[str]) -> dict[str, tuple[str, ...]]:
    """By policy. Every policy is made once here, so that a mistake is told before anything runs."""
    chosen: dict[str, list[str]] = {name: list(shared) for name in names}
    for item in settings:
        owner = next((name for name in sorted(names, key=len, reverse=True) if item.startswith(f"{name}.")), None)
        if owner is None:
            raise UserError(f"--set {item}: write policy.name=value, with one of {', '.join(names)}")
        chosen[owner].append(item.removeprefix(f"{owner}."))
    for name in names:
        make_policy(name, chosen[name])
    return {name: tuple(values) for name, values in chosen.items()}
