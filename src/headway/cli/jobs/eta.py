"""`headway eta`: when will it be done? Answered from a run's log, up to the last cycle in it."""

from __future__ import annotations

import json as json_
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from headway.beliefs.books import make_book
from headway.beliefs.file import read_beliefs
from headway.beliefs.kept_book import kept_beliefs
from headway.cli.cluster.eta_cluster import eta_on_cluster
from headway.cli.jobs.why import LastCycle, last_cycle, meant_log, of_cluster
from headway.cli.options import Context, Json, Kubeconfig, Namespace, OnKube, State
from headway.cli.screen.clock_times import FEWEST_DRAWS, ClockTimes
from headway.cli.screen.say import say
from headway.cli.screen.show import plain
from headway.cli.screen.tables import TableColumn, fitted
from headway.cli.wiring import safe_policy
from headway.core.board import Board
from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.node import Node, Nodes
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.cycle.loop import Book
from headway.estimates.history.change_costs import ChangeCosts
from headway.estimates.progress import ProgressBook
from headway.forecast.eta import forecast, usual_costs
from headway.forecast.present import Present
from headway.forecast.times import Range
from headway.local.settings import clock_zero
from headway.record.replay import restore, snapshots
from headway.record.resume import GoingOn
from headway.sim.world import Costs

START_SECONDS = SAVE_SECONDS = 2.0
"""What a start and a save take on this machine where too few were seen."""
_COLUMNS = (
    TableColumn("job", is_text=True), TableColumn("state", is_text=True), TableColumn("starts"), TableColumn("done"),
)  # fmt: skip


def eta(
    job: Annotated[str, typer.Argument(help="The job's name; default: all jobs that are not over.")] = "",
    log: Annotated[
        Path | None, typer.Option(help="The run's log; default: the queue's, else the newest in .headway here.")
    ] = None,
    state: State = None,
    json: Json = False,
    kube: OnKube = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> None:
    """Tell when jobs start and when they are done, as times of day with ranges.

    In the queue or a run on this machine, by its log: how it is now, simulated ahead under its policy. Four outcomes of
    five are inside the range. Before a run, `headway run FILE --dry-run` tells the same. Of TrainingJobs on a cluster
    with --kube, -n, --kubeconfig or --context, or where KUBECONFIG is set.
    """
    if of_cluster(log, state, kube, namespace, kubeconfig, context):
        eta_on_cluster(job, namespace, kubeconfig, context, as_json=json)
        return
    path = log or meant_log(state)
    learning = _Learning.beside(path)
    last = last_cycle(path, learning.follow)
    jobs = last.snapshot.jobs
    if job and JobId(job) not in jobs.row_of:
        raise UserError(f"{path}: there is no job {job!r}; it has {', '.join(sorted(jobs.row_of)[:10])}")
    snapshot = learning.annotated(last)
    zero = _zero(last)
    if job and jobs.is_over(row := jobs.row_of[JobId(job)]):
        _tell_over(last, row, zero, as_json=json)
        return
    present = Present.of(snapshot, costs=local_costs(learning.book.history.costs))
    times = ClockTimes(forecast(present, last.policy, safe=safe_policy), zero)
    states = {jobs.job(row).id: jobs.state_of(row).name.lower() for row in jobs.row_of.values()}
    show_etas(times, states, only=[JobId(job)] if job else (), as_json=json)
    if not json and last.dead:
        say("Headway does not run now: the times are as if the run went on at this moment")


def local_costs(seen: ChangeCosts | None = None) -> Costs:
    return usual_costs(seen or ChangeCosts(), START_SECONDS, SAVE_SECONDS)


def _zero(last: LastCycle) -> float:
    """The time of day at second 0. A run that does not go on, or is in virtual time, is as if it went on now."""
    if last.dead or last.head.cluster != "local":
        return time.time() - last.snapshot.now
    return clock_zero(last.head.began, last.snapshot.now, time.time())


def _tell_over(last: LastCycle, row: int, zero: float, *, as_json: bool) -> None:
    jobs = last.snapshot.jobs
    at, word, name = float(jobs.since[row]) + zero, jobs.state_of(row).name.lower(), jobs.job(row).id
    if as_json:
        print(json_.dumps({"jobs": {name: {"state": word, "ended": round(at, 1)}}}))
        return
    say(f"{name}: {word} at {time.strftime('%a %H:%M:%S', time.localtime(at))}")


@dataclass(slots=True)
class _Learning:
    """The book of the run, made again from its log: the log has only what a policy looked at."""

    book: ProgressBook = field(default_factory=ProgressBook)

    @classmethod
    def beside(cls, log: Path) -> _Learning:
        kept = kept_beliefs(log)
        if not kept.exists():
            return cls()
        known = read_beliefs(kept)
        return cls(ProgressBook(history=known.history, since=known.until))

    def follow(self, snapshot: Snapshot) -> None:
        self.book = self.book.fold(snapshot)

    def annotated(self, last: LastCycle) -> Snapshot:
        match last.head.estimates:
            case "progress":
                return self.book.annotate(last.snapshot)
            case "declared":
                return make_book("declared").annotate(last.snapshot)
        return last.snapshot


# ── before and during a run ─────────────────────────────────────────────────────────────────────────────────


def foresee(
    going: GoingOn, nodes: Sequence[Node], policy: Policy, book: Book, *, began: float, log: Path | None, as_json: bool
) -> None:
    """Tells when the jobs of a run are done that begins now, or goes on from this log."""
    now, board = time.time() - began, Board(Nodes.of(nodes))
    for job, change in going.restored:
        restore(board, board.add(job, now), change)
    for job in going.arriving:
        if job.submit <= now:
            board.add(job, now)
    costs = None
    if log is not None and isinstance(book, ProgressBook):
        learning = _Learning.beside(log)
        for past in snapshots(log):
            learning.follow(past)
        book, costs = learning.book, learning.book.history.costs
    snapshot = book.annotate(board.snapshot(now))
    to_come = [job for job in going.arriving if job.submit > now]
    present = Present.of(snapshot, to_come, local_costs(costs))
    states = dict.fromkeys(snapshot.jobs.row_of, "to start")
    show_etas(ClockTimes(forecast(present, policy, safe=safe_policy), began), states, as_json=as_json)


def foresee_more(log: Path, jobs: Sequence[Job], *, as_json: bool) -> None:
    """Tells when these jobs would start and be done if they were added now."""
    learning = _Learning.beside(log)
    last = last_cycle(log, learning.follow, jobs)
    present = Present.of(learning.annotated(last), costs=local_costs(learning.book.history.costs))
    times = ClockTimes(forecast(present, last.policy, safe=safe_policy), _zero(last))
    names = [job.id for job in jobs]
    show_etas(times, dict.fromkeys(names, "to add"), only=names, as_json=as_json)


# ── on the screen ───────────────────────────────────────────────────────────────────────────────────────────


def show_etas(
    times: ClockTimes, states: Mapping[JobId, str], *, only: Sequence[JobId] = (), as_json: bool = False
) -> None:
    """Prints the forecast of one job as a sentence, of several as a table; without `only`, of all."""
    found = times.forecast
    etas = {job: found.jobs[job] for job in only} if only else found.jobs
    if as_json:
        jobs = {job: {"state": states.get(job, "to come"), "starts": _moments(times, eta.starts),
                      "done": _moments(times, eta.done)} for job, eta in etas.items()}  # fmt: skip
        all_done = _moments(times, found.all_done)
        print(json_.dumps({"now": round(times.now, 1), "draws": found.draws, "all_done": all_done, "jobs": jobs}))
        return
    if len(only) == 1:
        say(f"{only[0]} ({states.get(only[0], 'to come')}): {times.sentence(etas[only[0]])}")
        return
    if not etas:
        say("nothing is left to run")
        return
    console = Console()
    rows: list[list[str | Text]] = [
        [plain(job), states.get(job, "to come"), times.between(eta.starts), times.about(eta.done)]
        for job, eta in etas.items()
    ]
    console.print(fitted("", _COLUMNS, rows, console.width))
    say(summary(times))


def summary(times: ClockTimes) -> str:
    """When all is done."""
    done = times.forecast.all_done
    if done is None:
        return ""
    if math.isinf(done.mid):
        return "as things are, some jobs may never be done"
    few = times.forecast.draws < FEWEST_DRAWS
    return f"all done {times.about(done)}" + ("; there was no time for ranges" if few else "")


def _moments(times: ClockTimes, moment: Range | None) -> dict[str, Any] | None:
    """Seconds since 1970; None where it is not foreseen."""
    if moment is None:
        return None
    return {name: None if math.isinf(value) else round(value + times.zero, 1)
            for name, value in moment._asdict().items()}  # fmt: skip
