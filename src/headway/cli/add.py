"""`headway add`: puts jobs into the queue of a run, while it runs or between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.queue_files import some
from headway.cli.say import say
from headway.cli.wiring import check_claims, warn
from headway.core.errors import UserError
from headway.local.added import RunCard, added_jobs, ask_again, card_of, put
from headway.local.claims import running_folders
from headway.local.machine import check_jobs
from headway.local.replica import check_programs
from headway.local.state_folder import folder_of, is_locked
from headway.workload.deadlines import impossible_deadlines
from headway.workload.jobsfile import load_all

To = Annotated[Path | None, typer.Option("--to", help="Name the jobs file of the run. Default: the run that goes on.")]
State = Annotated[Path | None, typer.Option(help="The folder that was given to `headway run --state`.")]


def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Jobs files (YAML) with the jobs to add.")],
    to: To = None,
    state: State = None,
) -> None:
    """Add jobs to a run, while it goes on or before its next start. A job that was added before is replaced."""
    folder = queue_folder(to, state)
    card = card_of(folder) or RunCard([str(to.resolve())] if to else [], [])
    own = [file for file in files if str(file.resolve()) in card.files]
    others = [file for file in files if file not in own]
    if own:
        load_all(own)
        _again(folder, own)
    if not others:
        return
    workload = load_all(others)
    for file in others:
        jobs = load_all([file]).jobs
        if card.nodes:
            check_jobs(str(file), jobs, card.nodes)
        check_programs(str(file), jobs)
        check_claims(file, card.settings, jobs)
        warn(impossible_deadlines(jobs))
    before = added_jobs(folder)
    for file in others:
        put(folder, load_all([file]).jobs, file)
    names = [job.id for job in workload.jobs]
    fresh, replaced = [job for job in names if job not in before], [job for job in names if job in before]
    told = [f"{word}: {some(jobs)}" for word, jobs in (("added", fresh), ("replaced", replaced)) if jobs]
    say(f"{'; '.join(told)}; {_then(folder, card)}")


def queue_folder(to: Path | None, state: Path | None, option: str = "--to") -> Path:
    """The state folder of the run that is meant: the named one, the one that goes on, or the only one here."""
    if state is not None:
        return folder_of(Path(), state)
    if to is not None:
        if not to.exists() and not folder_of(to).exists():
            raise UserError(f"{option} {to}: does not exist")
        return folder_of(to)
    running = running_folders()
    if len(running) == 1:
        return running[0]
    if running:
        raise UserError(f"{len(running)} runs go on ({', '.join(map(str, running))}); name one with --state")
    here = sorted(path.parent for path in Path(".headway").resolve().glob("*/run.log"))
    if len(here) == 1:
        return here[0]
    raise UserError(f"no run goes on, and {len(here) or 'none'} ran in this folder; name its jobs file with {option}")


def _again(folder: Path, own: list[Path]) -> None:
    names = ", ".join(str(file) for file in own)
    if is_locked(folder):
        ask_again(folder)
        say(f"{names}: is read again, and jobs of it that failed run again")
    else:
        say(f"{names}: is the file of this run; `headway run {own[0]}` runs what is new or failed", error=True)


def _then(folder: Path, card: RunCard) -> str:
    if is_locked(folder):
        return f"the run that goes on takes them in (process {card.pid}, {folder})"
    return f"`headway run {card.files[0]}` runs them" if card.files else f"the next run in {folder} runs them"
