"""`headway learn train`: a network that chooses the settings of `headway` by the state of the cluster."""

from __future__ import annotations

import json as json_
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway import __version__
from headway.cli.learn.many_runs import ManyRuns, check_budget
from headway.cli.options import Cluster, ExecutorName, Format, Json, Processes, need_learn
from headway.cli.wiring import writable
from headway.compare.own_log import is_log
from headway.core.errors import UserError
from headway.record.lines import Head
from headway.record.log import read
from headway.trained.file import TrainedPolicy, write_trained

if TYPE_CHECKING:
    from headway.learn.suites import Suite
    from headway.learn.training.train import Trained
    from headway.learn.tuning.verdict import Judged

MOST_JUDGED = 12
"""Windows that say whether it pays, at most."""


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
    log: Annotated[
        Path | None,
        typer.Option(help="Train on the jobs of this log, of run, schedule or simulate; the last ones say if it pays."),
    ] = None,
    cluster: Cluster = "",
    format_: Format = "",
    window: Annotated[int, typer.Option(help="Set the jobs of a window, with --trace or --log.", min=2)] = 150,
    tasks: Annotated[int, typer.Option(help="Train on this many tasks.", min=1)] = 12,
    validate: Annotated[int, typer.Option(help="Choose the best on this many other tasks.", min=1)] = 8,
    knobs: Annotated[str, typer.Option(help="Settings to train: names separated by commas. Default: eight.")] = "",
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

    With --trace or --log the last fifth of the jobs is kept apart, and says whether it pays.
    Use the file with `--policy learned --set file=FILE`; in compare with `--set learned.file=FILE`.
    """
    need_learn()
    if trace is not None and log is not None:
        raise UserError("--log: it is trained on one of both; give --trace or --log")
    writable(out, "--out", [trace, log])
    kept = state or out.with_name(f"{out.name}.runs")
    writable(kept, "--state", [trace, log, out])
    from headway.learn.training.candidate import run_candidate
    from headway.learn.training.train import TrainSettings, check_knobs, least_budget, pays, tasks_of
    from headway.learn.training.train import train as search

    given = TrainSettings(knobs=check_knobs(knobs.split(",")), budget=budget, seed=seed)
    chosen = _suites(suites, trace, log, cluster, window, format_)
    on, by = tasks_of(chosen, "train", tasks), tasks_of(chosen, "validation", validate)
    last = tasks_of(chosen, "test", MOST_JUDGED) if trace or log else []
    check_budget(budget, least_budget(len(on), given))
    many = ManyRuns("train", executor, jobs, kept, budget + 3 * len(by) + 2 * len(last), json)
    with many.made_by(run_candidate) as runs:
        found = search(on, by, given, runs)
        judged = pays(found.candidate, last, given, runs) if last else None
    write_trained(out, TrainedPolicy(found.candidate.network(), found.trained_on, found.scores), __version__)
    _tell(out, found, judged, _notes(log), as_json=json)


def _suites(
    names: str, trace: Path | None, log: Path | None, cluster: str, window: int, format_: str
) -> list[Suite]:  # fmt: skip
    from headway.learn.suites import suite_named
    from headway.learn.trace_suites import log_suite, trace_suite

    if log is not None:
        if not is_log(log):
            raise UserError(f"--log {log}: this is not a headway log; give a trace as --trace")
        return [log_suite(log, cluster, window)]
    if trace is not None:
        return [trace_suite(trace, cluster, window, format_)]
    return [suite_named(name.strip()) for name in dict.fromkeys(names.split(","))]


def _notes(log: Path | None) -> Sequence[str]:
    """What the log's run had and the training does not have."""
    from headway.learn.tuning.windows import left_out_of

    head = None if log is None else next(iter(read(log)))
    return left_out_of(head) if isinstance(head, Head) else ()


def _tell(out: Path, found: Trained, judged: Judged | None, notes: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        told: dict[str, Any] = {"file": str(out), "scores": found.scores, "trained_on": found.trained_on}
        if judged is not None:
            verdict = judged.as_json()
            told["pays"] = {key: verdict[key] for key in ("why", "gain", "interval", "tail", "fairness", "windows")}
            told["pays"]["pays"] = judged.change
        print(json_.dumps(told))
        return
    scores = found.scores
    generations = "1 generation" if scores["generations"] == 1 else f"{scores['generations']} generations"
    print(f"{out}: {generations}, {scores['runs']} runs")
    for sentence in notes:
        print(f"note: {sentence}")
    print(f"on {scores['validation tasks']} tasks that chose it, as a multiple of headway's:")
    for name in ("mean completion", "slowest 5 %", "p99"):
        print(f"  {name:<16} {scores[name]:.3f}")
    if judged is not None:
        _tell_whether(judged, out)


def _tell_whether(judged: Judged, out: Path) -> None:
    low, high = sorted(judged.interval)
    many = "1 later window" if judged.windows == 1 else f"{judged.windows} later windows"
    sure = f" ({-high:+.1%} to {-low:+.1%})" if math.isfinite(low) and math.isfinite(high) else ""
    print("it pays:" if judged.change else f"it does not pay: {judged.why}; keep headway")
    print(f"  mean completion {-judged.gain:+.1%}{sure} on {many} that it did not see")
    if judged.change:
        print(f"use it with:\n  --policy learned --set file={out}")
