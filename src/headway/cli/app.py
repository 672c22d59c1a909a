"""All commands in one place."""

from __future__ import annotations

import typer

from headway.cli.compare import compare
from headway.cli.generate import generate
from headway.cli.jobs import jobs
from headway.cli.lab import app as lab
from headway.cli.replay import replay
from headway.cli.run import run
from headway.cli.schedule import schedule
from headway.cli.simulate import simulate
from headway.cli.submit import submit

app = typer.Typer(
    name="headway",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A scheduler for deep-learning training that knows how much headway each job is making.",
)
app.command()(run)
app.command()(simulate)
app.command()(compare)
app.command()(generate)
app.command()(replay)
app.command()(schedule)
app.command()(submit)
app.command()(jobs)
app.add_typer(lab, name="lab")
