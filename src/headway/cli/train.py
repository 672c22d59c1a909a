"""`headway learn train`: a network that chooses the settings of `headway` by the state of the cluster."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway import __version__
from headway.cli.many_runs import ManyRuns, check_budget
from headway.cli.options import Cluster, ExecutorName, Format, Json, Processes, need_learn
from headway.cli.wiring import writable
from headway.trained.file import TrainedPolicy, write_trained

if TYPE_CHECKING:
    from headway.learn.suites import Suite
    from headway.learn.training.train import Trained


def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the trained policy to this file.")] = Path(
        "trained.npz"
    ),
    suites: Annotated[
        str, typer.Option("--suites", help="Train on tasks of these suites, by turns: names separated by commas.")
    ] = "elastic-v1,bursty-v1,fixed-v1",
    trace: Annotated[
        Path | None, typer.Option(help="Train on windows of this trace instead; later ones choose the best.")
    ] = None,
    cluster: Cluster = "",
    format_: Format = "",
    window: Annotated[int, typer.Option(help="Set the jobs of a window, with --trace.", min=2)] = 150,
    tasks: Annotated[int, typer.Option(help="Train on this many tasks.", min=1)] = 12,
    validate: Annotated[int, typer.Option(help="Choose the best on this many other tasks.", min=1)] = 8,
    knobs: Annotated[str, typer.Option(help="Turn these settings: names separated by commas. Default: eight.")] = "",
    budget: Annotated[int, typer.Option(help="Make at most this many runs of a task to search.", min=1)] = 360,
    seed: Annotated[int, typer.Option(help="Seed the search: the same seed gives the same file.")] = 0,
    state: Annotated[
        Path | None, typer.Option(help="Keep finished runs in this file. Default: OUT.runs. A second start goes on.")
    ] = None,
    executor: ExecutorName = "",
    jobs: Processes = 0,
    json: Json = False,
) -> None:
    """Train the policy `learned` by evolution strategies. Without weights it is exactly `headway`.

    Use the file with `--policy learned --set file=FILE`; in compare with `--set learned.file=FILE`.
    """
    need_learn()
    writable(out, "--out", [trace])
    kept = state or out.with_name(f"{out.name}.runs")
    writable(kept, "--state", [trace, out])
    from headway.learn.training.candidate import run_candidate
    from headway.learn.training.train import TrainSettings, check_knobs, least_budget, tasks_of
    from headway.learn.training.train import train as search

    given = TrainSettings(knobs=check_knobs(knobs.split(",")), budget=budget, seed=seed)
    chosen = _suites(suites, trace, cluster, window, format_)
    on, by = tasks_of(chosen, "train", tasks), tasks_of(chosen, "validation", validate)
    check_budget(budget, least_budget(len(on), given))
    many = ManyRuns("train", executor, jobs, kept, budget + 3 * len(by), json)
    with many.made_by(run_candidate) as runs:
        found = search(on, by, given, runs)
    write_trained(out, TrainedPolicy(found.candidate.network(), found.trained_on, found.scores), __version__)
    _tell(out, found, as_json=json)


def _suites(names: str, trace: Path | None, cluster: str, window: int, format_: str) -> list[Suite]:
    from headway.learn.suites import suite_named
    from headway.learn.trace_suites import trace_suite

    if trace is not None:
        return [trace_suite(trace, cluster, window, format_)]
    return [suite_named(name.strip()) for name in dict.fromkeys(names.split(","))]


def _tell(out: Path, found: Trained, *, as_json: bool) -> None:
    if as_json:
        print(json_.dumps({"file": str(out), "scores": found.scores, "trained_on": found.trained_on}))
        return
    scores = found.scores
    generations = "1 generation" if scores["generations"] == 1 else f"{scores['generations']} generations"
    print(f"{out}: {generations}, {scores['runs']} runs")
    print(f"on {scores['validation tasks']} tasks that it was not trained on, as a multiple of headway's:")
    for name in ("mean completion", "slowest 5 %", "p99"):
        print(f"  {name:<16} {scores[name]:.3f}")
