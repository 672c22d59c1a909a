"""`headway learn`: files of what finished jobs have taught, and leaderboards of policies and agents."""

from __future__ import annotations

import hashlib
import json as json_
import math
import os
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from headway import __version__
from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, SourceFields, is_beliefs, read_beliefs, write_beliefs
from headway.beliefs.folding import Folding
from headway.cli.learn.train import train
from headway.cli.options import Cluster, Format, Json, Processes, need_learn
from headway.cli.screen.live import Bars
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted
from headway.cli.wiring import warn, writable
from headway.compare.own_log import is_log
from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.text import clean
from headway.estimates.history.change_costs import ALL, Usual
from headway.record.replay import snapshots
from headway.workload.open import open_workload

APART = 1.2
"""From this factor on, models are told to differ."""

app = typer.Typer(no_args_is_help=True, help="Learn from finished jobs, for the runs to come.")
app.command()(train)


@app.callback()
def learn() -> None:
    """Learn from finished jobs, for the runs to come."""


@app.command()
def beliefs(
    sources: Annotated[
        list[Path], typer.Argument(metavar="LOG|TRACE", help="Logs of run, schedule or simulate; traces; in order.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the beliefs to this file.")] = Path("beliefs.json"),
    start: Annotated[
        Path | None, typer.Option("--from", help="Begin with the beliefs of this file, and add to them.")
    ] = None,
    format_: Format = "",
    json: Json = False,
) -> None:
    """Fold finished jobs into a file of beliefs: how long like jobs train, how their speed depends on size, and how
    long starts and stops take.

    Logs teach all three. Traces have training times only. Use the file with --beliefs in run, schedule, simulate,
    compare.
    """
    writable(out, "--out", sources)
    before = NO_BELIEFS if start is None else read_beliefs(start)
    folding, made_of = Folding(before.history), list(before.made_of)
    for path in sources:
        jobs = folding.jobs
        _fold(folding, path, format_)
        digest = _sha256(path)
        if any(one.sha256 == digest for one in made_of):
            warn([f"{path}: it has been learned from before; its jobs count twice now"])
        made_of.append(SourceFields(path.name, digest, folding.jobs - jobs))
    if not folding.jobs:
        raise UserError(f"{sources[0]}: no job finished in it; there is nothing to learn from")
    found = LearnedBeliefs(folding.history, tuple(made_of), tuple(folding.scores().items()))
    write_beliefs(out, found, __version__)
    _tell(out, found, as_json=json)


def _fold(folding: Folding, path: Path, format_: str) -> None:
    if not format_ and is_log(path):
        folding.run(snapshots(path))
        return
    if not format_ and is_beliefs(path):
        raise UserError(f"{path}: is a file of beliefs; give it as --from, and the logs and traces to add")
    trace = open_workload(path, format_)
    folding.trace(_finished(trace.jobs, trace.work))


def _finished(jobs: Iterable[Job], work: object) -> Iterable[tuple[Job, float]]:
    assert callable(work)
    for job in jobs:
        seconds = work(job)
        if seconds is not None and seconds > 0:
            yield job, seconds


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tell(out: Path, found: LearnedBeliefs, *, as_json: bool) -> None:
    scores, history = dict(found.scores), found.history
    models = sum(1 for kind in history.kinds.values() if kind.at_several)
    types = Counter(accelerator for (_, _, accelerator), kind in history.types.items() if kind.at_several)
    usual = {"starts": _seconds_by_model(history.costs.starts), "stops": _seconds_by_model(history.costs.stops)}
    if as_json:
        print(json_.dumps({
            "file": str(out), "scores": scores, "models": models, "kinds": len(history.durations.histograms),
            "accelerators": dict(sorted(types.items())),
            **{what: {"seconds": by_model.pop(ALL, None), "models": by_model} for what, by_model in usual.items()},
        }))  # fmt: skip
        return
    print(f"{out}: {scores['jobs']} jobs that finished")
    print(f"  training times  {len(history.durations.histograms)} kinds of jobs{_errors(scores)}")
    print(f"  speed by size   {models} models that ran at more than one size")
    if types:
        print(_on_types(types))
    for what, by_model in usual.items():
        if ALL in by_model:
            print(f"  {what:<15} {_usually(by_model)}")


def _on_types(types: Counter[str]) -> str:
    told = "  by accelerator  " + ", ".join(f"{name}: {count}" for name, count in sorted(types.items()))
    return textwrap.fill(clean(told), 80, subsequent_indent=" " * 18)


def _seconds_by_model(usual: Usual) -> dict[str, float]:
    """In the order of the alphabet; without models of which too few changes were seen."""
    known = {model: one.seconds for model, one in sorted(usual.items())}
    return {model: round(seconds, 3) for model, seconds in known.items() if seconds is not None}


def _usually(by_model: dict[str, float]) -> str:
    """Such as: take 30 s; by model from 12 s to 95 s."""
    told, ordered = _lasting(by_model[ALL]), sorted(seconds for model, seconds in by_model.items() if model != ALL)
    if len(ordered) < 2 or ordered[-1] < APART * ordered[0]:
        return f"take {told}"
    return f"take {told}; by model from {_lasting(ordered[0])} to {_lasting(ordered[-1])}"


def _lasting(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else "no time"


def _errors(scores: dict[str, float | int | None]) -> str:
    error, plain = scores["error of like jobs"], scores["error of all jobs' median"]
    if error is None or plain is None:
        return ""
    told, at_all = math.exp(error), math.exp(plain)
    return f"; they were off by\n{'':18}a factor of {told:.2f} in the median, all jobs' median by {at_all:.2f}"


@app.command()
def leaderboard(
    suite: Annotated[
        str, typer.Option(help="Take the tasks of this suite: fixed-v1, bursty-v1 or elastic-v1.")
    ] = "fixed-v1",
    trace: Annotated[
        Path | None, typer.Option(help="Take windows of this trace instead; parts follow each other in time.")
    ] = None,
    cluster: Cluster = "",
    window: Annotated[int, typer.Option(help="Set the jobs of a window, with --trace.", min=2)] = 200,
    part: Annotated[str, typer.Option(help="Score on train, validation or test.")] = "validation",
    policies: Annotated[str, typer.Option(help="Score these: names separated by commas. Default: all.")] = "",
    agent: Annotated[
        str, typer.Option(help="Also score your own agent, mine.py:function from an observation to an action.")
    ] = "",
    env: Annotated[str, typer.Option(help="Choose the agent's environment.")] = "headway/Order-v0",
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the leaderboard to this file.")] = Path(
        "leaderboard.json"
    ),
    format_: Format = "",
    jobs: Processes = 0,
    json: Json = False,
) -> None:
    """Score policies, and your agent, on a task suite: the share of the gap to all-knowing policies that each closes.

    0 % is first-fit, 100 % the best of several policies that know the truth. docs/learn.md tells of the suites.
    """
    writable(out, "--out", [trace])
    need_learn()
    from headway.learn import ENVIRONMENTS
    from headway.learn.agents import load_agent
    from headway.learn.leaderboard import KNOWING, LOWER, ranked, score_agent, score_policies
    from headway.learn.suites import suite_named
    from headway.learn.trace_suites import trace_suite
    from headway.policies.registry import POLICIES

    if env not in ENVIRONMENTS:
        raise UserError(f"--env {env}: choose one of {', '.join(ENVIRONMENTS)}")
    own = load_agent(agent) if agent else None
    tasks = suite_named(suite) if trace is None else trace_suite(trace, cluster, window, format_)
    if part not in tasks.sizes:
        raise UserError(f"--part {part}: choose one of {', '.join(tasks.sizes)}")
    names = [name.strip() for name in policies.split(",") if name.strip()] or list(POLICIES)
    count = tasks.sizes[part] * (len(dict.fromkeys((LOWER, *names))) + len(KNOWING))
    lines = [] if own is None else [score_agent(env, tasks, part, agent, own)]
    with Bars([f"run {number + 1} of {count}" for number in range(count)], quiet=json) as bars:
        lines += score_policies(tasks, part, names, jobs or len(os.sched_getaffinity(0)), bars.set)
    found = ranked(tasks, part, lines)
    out.write_text(json_.dumps(found, indent=1) + "\n", encoding="utf-8")
    if json:
        print(json_.dumps(found))
        return
    _show_scores(found, out)


def _show_scores(found: dict[str, Any], out: Path) -> None:
    from rich.console import Console

    console = Console()
    columns = [
        TableColumn("policy", is_text=True), TableColumn("knows", is_text=True), TableColumn("mean completion"),
        TableColumn("gap closed"),
    ]  # fmt: skip
    rows = [
        [plain(score["policy"]), "the truth" if score["estimates"] == "oracle" else "what it sees",
         *(("-", "-") if score["gap_closed"] is None else
           (f"{score['mean_completion']:,.0f} s", f"{score['gap_closed']:.1f} %"))]
        for score in found["scores"]
    ]  # fmt: skip
    console.print(fitted(f"{found['suite']}, {found['part']}: {found['tasks']} tasks", columns, rows, console.width))
    console.print(plain(f"{out}: tasks {found['digest']}"), highlight=False)
