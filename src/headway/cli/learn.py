"""`headway learn`: files of what finished jobs have taught."""

from __future__ import annotations

import hashlib
import json as json_
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from headway import __version__
from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, SourceFields, read_beliefs, write_beliefs
from headway.beliefs.folding import Folding
from headway.cli.options import Format, Json
from headway.cli.wiring import writable
from headway.core.errors import UserError
from headway.core.job import Job
from headway.record.lines import Head
from headway.record.log import read
from headway.record.logfile import LogError
from headway.record.replay import snapshots
from headway.workload.open import open_workload

app = typer.Typer(no_args_is_help=True, help="Learn from finished jobs, for the runs to come.")


@app.callback()
def learn() -> None:
    """Learn from finished jobs, for the runs to come."""


@app.command()
def beliefs(
    sources: Annotated[
        list[Path], typer.Argument(metavar="LOG|TRACE...", help="Logs of run, schedule or simulate; traces; in order.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the beliefs to this file.")] = Path("beliefs.json"),
    start: Annotated[
        Path | None, typer.Option("--from", help="Begin with the beliefs of this file, and add to them.")
    ] = None,
    format_: Format = "",
    json: Json = False,
) -> None:
    """Fold finished jobs into a file of beliefs: how long like jobs train, and how their speed depends on size.

    Logs teach both. Traces have training times only. Use the file with --beliefs in run, schedule, simulate, compare.
    """
    writable(out, "--out")
    before = NO_BELIEFS if start is None else read_beliefs(start)
    folding, made_of = Folding(before.history), list(before.made_of)
    for path in sources:
        jobs = folding.jobs
        _fold(folding, path, format_)
        made_of.append(SourceFields(path.name, _sha256(path), folding.jobs - jobs))
    if not folding.jobs:
        raise UserError(f"{sources[0]}: no job finished in it; there is nothing to learn from")
    found = LearnedBeliefs(folding.history, tuple(made_of), tuple(folding.scores().items()))
    write_beliefs(out, found, __version__)
    _tell(out, found, as_json=json)


def _fold(folding: Folding, path: Path, format_: str) -> None:
    if not format_ and _is_log(path):
        folding.run(snapshots(path))
        return
    trace = open_workload(path, format_)
    folding.trace(_finished(trace.jobs, trace.work))


def _finished(jobs: Iterable[Job], work: object) -> Iterable[tuple[Job, float]]:
    assert callable(work)
    for job in jobs:
        seconds = work(job)
        if seconds is not None and seconds > 0:
            yield job, seconds


def _is_log(path: Path) -> bool:
    try:
        return isinstance(next(iter(read(path)), None), Head)
    except (LogError, UserError):
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tell(out: Path, found: LearnedBeliefs, *, as_json: bool) -> None:
    scores, history = dict(found.scores), found.history
    models = sum(1 for kind in history.kinds.values() if kind.weight)
    if as_json:
        print(json_.dumps({
            "file": str(out), "scores": scores, "models": models, "kinds": len(history.durations.histograms),
        }))  # fmt: skip
        return
    print(f"{out}: {scores['jobs']} jobs that finished")
    print(f"  training times  {len(history.durations.histograms)} kinds of jobs{_errors(scores)}")
    print(f"  speed by size   {models} models that ran at more than one size")


def _errors(scores: dict[str, float | int | None]) -> str:
    error, plain = scores["error of like jobs"], scores["error of all jobs' median"]
    if error is None or plain is None:
        return ""
    told, at_all = math.exp(error), math.exp(plain)
    return f"; they were off by\n{'':18}a factor of {told:.2f} in the median, all jobs' median by {at_all:.2f}"
