"""`headway remove`: takes jobs that were added out of the queue of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.add import queue_folder
from headway.cli.say import say
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.local.added import added_jobs, card_of, take_out


def remove(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Names of jobs that were added.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Name the jobs file of the run. Default: the run that goes on.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="The folder that was given to `headway run --state`.")] = None,
) -> None:
    """Take jobs that `headway add` added out again. One that runs is saved and stopped; its checkpoint stays."""
    folder = queue_folder(source, state, "--from")
    known = added_jobs(folder)
    for job in jobs:
        if JobId(job) not in known:
            card = card_of(folder)
            file = card.files[0] if card else "the jobs file"
            raise UserError(f"{job}: was not added by `headway add`; a job of {file} is removed by editing that file")
    for job in jobs:
        take_out(folder, JobId(job))
    say(f"removed: {', '.join(jobs)}")
