"""`headway run`: the jobs of a file, really trained on this machine; then a table and a picture."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.machine.how import HowToTrain, trains
from headway.cli.machine.jobs_watch import QueueFiles
from headway.cli.machine.queue_status import read_status
from headway.cli.machine.training import shortly, train, would_train
from headway.cli.options import Json
from headway.cli.screen.clock_times import times_of
from headway.cli.screen.show import show_result
from headway.core.job import JobId
from headway.local.state_folder import folder_of, has_run
from headway.record.log import read
from headway.record.metrics import Tally


@trains
def run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Jobs files (YAML).")],
    how: HowToTrain,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep log, output and checkpoints in this folder. Default: .headway/NAME beside FILE."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Set what earlier runs left aside and start over.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Start nothing: tell when each job would start and be done.")
    ] = False,
    json: Json = False,
) -> None:
    """Train jobs for real on this machine. The same command again runs what is new, failed or unfinished."""
    folder = folder_of(files[0], state)
    queue = QueueFiles(files, folder, with_added=not (fresh and has_run(folder)))
    how = replace(how, quiet=json, fresh=fresh)
    if dry_run:
        would_train(queue, how)
        return
    train(files, queue, how)
    _report(folder, {job.id for job in queue.workload.jobs}, as_json=json)


def _report(folder: Path, jobs: set[JobId], *, as_json: bool) -> None:
    """Shows the jobs of the file, each as it came last. The log has those before it, too."""
    tally = Tally(courses=True)
    for line in read(folder / "run.log"):
        tally(line)
    tally.close()
    newest = {course.job.id: serial for serial, course in tally.courses.items()}
    tally.courses = {newest[job]: tally.courses[newest[job]] for job in newest if job in jobs}
    now = time.time()
    times = {JobId(job.name): times_of(job, now) for job in read_status(folder).jobs if not job.is_over}
    show_result(tally, as_json=as_json, folder=folder, times=times)
    if not as_json:
        from headway.record.picture import draw

        picture = draw(tally, folder / "run.png")
        print(f"log      {shortly(folder / 'run.log')}")
        print(f"picture  {shortly(picture)}" if picture else "picture  not drawn: matplotlib is not installed")
    result = tally.result()
    if result["failed"] or result["unfinished"]:
        raise typer.Exit(1)
