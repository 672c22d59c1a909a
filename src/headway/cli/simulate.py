"""`headway simulate`: one policy, one trace, virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import Cluster, Estimates, Format, Json, Log, PolicyName, Queues, Report, Seed, Set, World
from headway.cli.progress import Bars
from headway.cli.show import show_result
from headway.cli.wiring import check_estimates, make_book, make_policy, queue_setting, writable
from headway.compare.scenario import Task, make_cluster, make_head, make_tally, read_scenario, watched
from headway.cycle.loop import run
from headway.cycle.resume import resume
from headway.record.log import LogWriter
from headway.record.outcome import outcome
from headway.record.resume import interrupted


def simulate(
    file: Annotated[Path, typer.Argument(help="A jobs file (YAML) or a published trace.", metavar="TRACE")],
    policy: PolicyName = "headway",
    settings: Set = [],  # noqa: B006  typer copies it
    queues: Queues = None,
    cluster: Cluster = "",
    format_: Format = "",
    estimates: Estimates = "declared",
    seed: Seed = 0,
    world: World = None,
    log: Log = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Run jobs in virtual time under one policy. The same jobs file runs for real with `headway run`.

    With --log, a simulation that was cut off goes on where it was: plans already in the log are taken from there.
    """
    check_estimates(estimates)
    settings = [*settings, *queue_setting(queues)]
    chosen = make_policy(policy, settings)
    writable(report, "--report")
    scenario = read_scenario(file, format_, cluster, world)
    task = Task(
        policy=policy, estimates=estimates, settings=tuple(settings), seed=seed, picture=report is not None,
        samples=log is not None and len(scenario.trace.jobs) <= 1000,
    )  # fmt: skip
    sim, head, tally = make_cluster(scenario, task), make_head(scenario, task), make_tally(scenario, task)
    before = interrupted(log, head)
    with Bars([policy], quiet=json) as bars:
        readers = watched(tally, scenario, lambda share: bars.set(0, share))
        writer = LogWriter(log, head, tally, *readers, fresh=not before.lines, written=before.lines)
        book = make_book(estimates, sim.truth, sim.speed_at)
        run(sim, resume(chosen, before.plans), book, lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
        writer.end(sim.now, sim.board.unfinished)
    if report is not None:
        from headway.compare.reporting import report_one

        report_one(report, scenario, task, outcome(tally, scenario.trace.jobs, name=policy, seed=seed))
    show_result(tally, as_json=json)
