"""`headway add`: puts a command, or the jobs of files, into the queue or into a run, also between runs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli.machine.jobs_watch import some
from headway.cli.machine.queue import meant_folder, queue_home, say_what_counts
from headway.cli.machine.queue_status import read_status
from headway.cli.options import Json
from headway.cli.screen.plain_help import AFTER, WithCommand
from headway.cli.screen.say import say
from headway.cli.wiring import check_claims, warn
from headway.core.errors import UserError
from headway.core.job import Job
from headway.jobspec import NAME
from headway.local.added import RunCard, added_jobs, ask_again, card_of, known_names, over_job, put
from headway.local.machine import check_jobs
from headway.local.replica import check_programs
from headway.local.state_folder import is_locked
from headway.record.differences import keeps_checkpoint, runs_the_same
from headway.workload.deadlines import deadline_warnings
from headway.workload.jobsfile import JobFields, jobs_of, load_all

COMMAND = WithCommand
CARRIED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Variables that a command takes with it from where it was added: the queue was started elsewhere."""
HERE = "headway add"

To = Annotated[Path | None, typer.Option("--to", help="Add to the run of this jobs file. Default: the queue.")]
State = Annotated[Path | None, typer.Option(help="The folder that was given to `headway run --state`.")]
Text = Annotated[str | None, typer.Option()]


def add(
    ctx: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Jobs files (YAML).")] = None,
    name: Annotated[str, typer.Option(help="Name the job. Default: that of its script, with a number.")] = "",
    cpu: Annotated[str | None, typer.Option(help="Cores of the job, such as 2 or 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Its memory, such as 2Gi.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Its GPUs.")] = None,
    deadline: Annotated[str | None, typer.Option(help="By when it should be done, from now: 90s, 5m, 2h.")] = None,
    priority: Annotated[int, typer.Option(help="Jobs with a higher priority come first.")] = 0,
    retries: Annotated[int, typer.Option(help="Start it again so often after an error.")] = 0,
    sweep: Annotated[
        list[str], typer.Option("--for", help="One job for each value: lr=0.1,0.01 or seed=3 (0 to 2). Repeatable.")
    ] = [],  # noqa: B006  typer copies it
    to: To = None,
    state: State = None,
    json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Add nothing: tell when each job would start and be done.")
    ] = False,
) -> None:
    """Add a command, or the jobs of files, to the queue of this machine or to a run that goes on.

    Example: `headway add --gpu 1 -- python train.py --lr 0.1`. It runs in the current folder.
    """
    words: list[str] = ctx.meta[AFTER]
    if bool(files) == bool(words):
        raise UserError("give jobs files, or a command after `--`: headway add -- python train.py --lr 0.1")
    folder = meant_folder(state, to)
    card = card_of(folder) or RunCard([str(to.resolve())] if to else [], [])
    if words:
        given = {"cpu": cpu, "memory": memory, "gpu": gpu, "deadline": deadline}
        fields = {key: value for key, value in given.items() if value is not None}
        jobs = _of_command(folder, words, name, {**fields, "priority": priority, "retries": retries}, sweep)
        by_file: list[tuple[Path, Sequence[Job]]] = [(Path(HERE), jobs)]
    else:
        by_file = _of_files(folder, card, files or [])
    _check(card, by_file)
    if dry_run:
        _foresee(folder, [job for _, jobs in by_file for job in jobs], as_json=json)
    else:
        _put(folder, card, by_file, as_json=json)


def _foresee(folder: Path, jobs: Sequence[Job], *, as_json: bool) -> None:
    """With those that were added, and that the run has not seen yet."""
    from headway.cli.jobs.eta import foresee_more

    if not (folder / "run.log").exists():
        raise UserError("--dry-run: there is no queue yet; `headway up` starts one")
    foresee_more(folder / "run.log", jobs, as_json=as_json)


def _check(card: RunCard, by_file: Sequence[tuple[Path, Sequence[Job]]]) -> None:
    for file, jobs in by_file:
        if card.nodes:
            check_jobs(str(file), jobs, card.nodes)
        check_programs(str(file), jobs)
        check_claims(file, card.settings, jobs)
        warn(deadline_warnings(jobs, card.pauses))


def _put(folder: Path, card: RunCard, by_file: Sequence[tuple[Path, Sequence[Job]]], *, as_json: bool) -> None:
    before = added_jobs(folder, {})
    over = {job.id for _, jobs in by_file for job in jobs if not job.fresh and over_job(folder, job.id) is not None}
    for file, jobs in by_file:
        put(folder, jobs, file)
    say_what_counts(folder, (job for _, jobs in by_file for job in jobs))
    names = [job.id for _, jobs in by_file for job in jobs]
    if as_json:
        import json as json_

        print(json_.dumps({"folder": str(folder), "jobs": names}))
        return
    words = {
        job: "replaced" if job in before else "goes on from its checkpoint" if job in over else "added" for job in names
    }
    told = [f"{word}: {some([job for job in names if words[job] == word])}" for word in dict.fromkeys(words.values())]
    if told:
        say(f"{'; '.join(told)}; {_then(folder, card)}")


def _of_files(folder: Path, card: RunCard, files: list[Path]) -> list[tuple[Path, Sequence[Job]]]:
    own = [file for file in files if str(file.resolve()) in card.files]
    others = [file for file in files if file not in own]
    if own:
        load_all(own)
        _again(folder, own)
    if others:
        load_all(others)
    by_file: list[tuple[Path, Sequence[Job]]] = [(file, load_all([file]).jobs) for file in others]
    finished = {job.name for job in read_status(folder).jobs if job.state == "finished"} - {*added_jobs(folder, {})}
    for file, jobs in by_file if folder == queue_home() else ():
        for job in jobs:
            old = over_job(folder, job.id)
            if job.id in finished and not (old and (job.fresh or _has_other_arguments(job, old))):
                raise UserError(f"{file}: job {job.id!r}: field name: a job of that name has finished; rename it")
    return by_file


def _of_command(folder: Path, words: list[str], name: str, fields: dict[str, Any], sweep: list[str]) -> list[Job]:
    """The job of a command line, or those of its sweep, with names that are still free."""
    env = {key: os.environ[key] for key in CARRIED if os.environ.get(key)}
    if words[0] in ("python", "python3") and ("VIRTUAL_ENV" in env or "CONDA_PREFIX" in env):
        words = [shutil.which(words[0]) or words[0], *words[1:]]
    taken = known_names(folder) | {job.name for job in read_status(folder).jobs}
    bare = JobFields(command=[*words], env={**env}, sweep=_sweep(sweep), **fields)

    def jobs_called(called: str) -> list[Job]:
        bare.name = called
        return jobs_of(HERE, bare, str(Path.cwd()))

    if name:
        return [_going_on(folder, job) if job.id in taken else job for job in jobs_called(name)]
    base = _name_of(words)
    tries = (jobs_called(base if number == 1 else f"{base}-{number}") for number in count(1))
    return next(jobs for jobs in tries if taken.isdisjoint(job.id for job in jobs))


def _going_on(folder: Path, job: Job) -> Job:
    """Other arguments for a job that is over: it goes on from its checkpoint, in the environment that it had."""
    old = over_job(folder, job.id)
    if old is not None and old.directory == job.directory and len(old.roles) == 1:
        same = replace(job, roles=(replace(job.roles[0], env=old.roles[0].env),))
        if _has_other_arguments(same, old):
            return same
    raise UserError(
        f"--name {job.id}: there is a job {job.id!r} already; give another name. Once it is over, "
        "other arguments of the same script go on from its checkpoint"
    )


def _has_other_arguments(job: Job, old: Job) -> bool:
    return keeps_checkpoint(job, old) and not runs_the_same(job, old)


def _name_of(words: Sequence[str]) -> str:
    """From its script, module or program: `train` of `python src/train.py --lr 0.1`."""
    plain = [word for word in words if not word.startswith("-")]
    is_python = re.fullmatch(r"python[\d.]*|sh|bash|env|torchrun", Path(plain[0]).name) if plain else None
    told = next((word for word in plain[1:] if re.fullmatch(r"[\w./-]+", word)), plain[0]) if is_python else plain[0]
    name = re.sub(r"[^a-z0-9]+", "-", Path(told).stem.lower()).strip("-")[:40].strip("-")
    return name if NAME.fullmatch(name) else "job"


def _sweep(given: Sequence[str]) -> dict[str, list[str | int | float] | int]:
    found: dict[str, list[str | int | float] | int] = {}
    for one in given:
        key, _, values = one.partition("=")
        if not values or key in found:
            raise UserError(f"--for {one}: write NAME=VALUE,VALUE,… or NAME=N, each name once")
        found[key] = int(values) if values.isdigit() else [*values.split(",")]
    return found


def _again(folder: Path, own: list[Path]) -> None:
    names = ", ".join(str(file) for file in own)
    if is_locked(folder):
        ask_again(folder)
        say(f"{names}: is read again, and jobs of it that failed run again")
    else:
        say(f"{names}: is the file of this run; `headway run {own[0]}` runs what is new or failed", error=True)


def _then(folder: Path, card: RunCard) -> str:
    if folder == queue_home():
        return "`headway jobs` shows them" if is_locked(folder) else "the queue is down: `headway up` runs them"
    if is_locked(folder):
        return f"the run that goes on takes them in (process {card.pid}, {folder})"
    return f"`headway run {card.files[0]}` runs them" if card.files else f"the next run in {folder} runs them"
