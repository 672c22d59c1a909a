"""`headway run`: real training processes on this machine under a policy."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.live import Live
from headway.cli.options import BeliefsFile, Cluster, Estimates, Json, PolicyName, Queues, Set
from headway.cli.queue_files import QueueFiles, some
from headway.cli.say import say
from headway.cli.show import show_result
from headway.cli.signals import Signals
from headway.cli.wiring import (
    beliefs_for,
    check_claims,
    guard_for,
    head_settings,
    keep_beliefs,
    keeping,
    make_policy,
    parse_cluster,
    queue_setting,
    safe_policy_for,
    warn,
)
from headway.core.board import Board
from headway.core.job import JobId
from headway.core.node import Node, Nodes
from headway.core.states import State
from headway.cycle.loop import Decided, Observer
from headway.cycle.loop import run as run_loop
from headway.local.added import leave_card
from headway.local.claims import claim_machine, machine_left
from headway.local.cluster import LocalCluster
from headway.local.editing import Wishes
from headway.local.machine import check_jobs, check_nodes
from headway.local.replica import check_programs
from headway.local.settings import LocalSettings, LocalTimeouts, clock_zero
from headway.local.state_folder import PARTS, earlier, env_key, folder_of, has_run, lock, newest_write, set_aside
from headway.record.lines import Change, Head
from headway.record.log import LogWriter, read
from headway.record.log_gate import LogGate
from headway.record.metrics import Tally
from headway.record.replay import restore
from headway.record.resume import GoingOn, Left, go_on
from headway.workload.deadlines import impossible_deadlines
from headway.workload.jobsfile import JobsFile

if TYPE_CHECKING:
    from headway.trained.guard import TrainedGuard


def run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Jobs files (YAML).")],
    policy: PolicyName = "headway",
    settings: Set = [],  # noqa: B006  typer copies it
    queues: Queues = None,
    cluster: Cluster = "",
    estimates: Estimates = "progress",
    beliefs: BeliefsFile = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep log, output and checkpoints in this folder. Default: .headway/NAME beside FILE."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Set what earlier runs left aside and start over.")] = False,
    save_seconds: Annotated[float, typer.Option(help="Give a job this long to save a checkpoint when asked.")] = 30.0,
    cgroups: Annotated[
        bool, typer.Option(help="Limit cpu and memory by cgroup where permitted. Otherwise: cpu by affinity.")
    ] = True,
    share: Annotated[bool, typer.Option("--share", help="Take what other runs leave of this machine.")] = False,
    json: Json = False,
) -> None:
    """Train jobs for real on this machine. The same command again runs what is new, failed or unfinished."""
    file, folder = files[0], folder_of(files[0], state)
    queue = QueueFiles(files, folder, with_added=not (fresh and has_run(folder)))
    nodes = _nodes(file, queue.workload, cluster, machine_left(share=share))
    settings = [*settings, *queue_setting(queues)]
    queue.check = partial(_check, nodes, settings)
    queue.check(queue)
    warn(impossible_deadlines(queue.workload.jobs))
    chosen, known = make_policy(policy, settings), beliefs_for(estimates, beliefs)
    with closing(lock(folder)), closing(claim_machine(folder, nodes, share=share)) as claim:
        left = earlier(folder, file, fresh=fresh)
        began = _clock_began(left)
        key, jobs = env_key(folder), queue.workload.jobs
        going = _going_on(left, queue, folder, began, key)
        _tell(file, folder, left, going)
        leave_card(folder, files, nodes, settings)
        if not (left.last and going.is_idle):
            digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
            head = Head(
                "local",
                policy,
                estimates,
                head_settings(known, policy, settings),
                0,
                began,
                f"{file.name} {digest}",
            )
            setup = LocalSettings(
                folder=folder, began=began, timeouts=LocalTimeouts(save=save_seconds), cgroups=cgroups,
                foreign_cores=claim.foreign_cores,
            )  # fmt: skip
            book = keep_beliefs(estimates, known, folder / "run.log")
            live = Live(quiet=json, told=_told(going))
            queue.say = live.say
            wishes = Wishes(jobs, queue.newer, partial(_set_aside, folder), key)
            here = _continued(LocalCluster(Nodes.of(nodes), going.arriving, setup, wishes), going)
            loop = partial(run_loop, policy=chosen, book=book, safe=safe_policy_for(settings))
            writer = LogWriter(folder / "run.log", head, durable=True, key=key)
            with keeping(book):
                _train(here, loop, writer, live, guard_for(policy, settings, folder / "run.log"))
    _report(folder, {job.id for job in queue.workload.jobs}, as_json=json)


def _train(
    here: LocalCluster, loop: Callable[..., None], writer: LogWriter, live: Live, guard: TrainedGuard | None
) -> None:
    """Runs the loop to its end. The first signal lets every job save and stop, the second ends all at once."""
    at_once = False
    signals = Signals(here.leave)
    try:
        with live:
            gate = LogGate(here, writer, live.say)
            watched = gate if guard is None else guard.watched(gate)
            loop(watched, observe=observing(writer, live, signals, guard))
        if here.leaving and here.is_unfinished:
            writer.close()
            say(_goodbye(here), error=True)
            raise typer.Exit(130)
        writer.end(here.now(), here.board.unfinished)
    except KeyboardInterrupt:
        at_once = True
        writer.close()
        say("ended at once; the same command continues the run", error=True)
        raise typer.Exit(130) from None
    finally:
        here.close(at_once=at_once)
        signals.restore()
        if guard is not None:
            guard.close()


def _goodbye(here: LocalCluster) -> str:
    saved = [job for job, landing in here.left.items() if landing.saved]
    parts = [f"saved: {', '.join(saved)}"] if saved else []
    parts += [f"{job} did not save: {one.why}" for job, one in here.left.items() if one.why and not one.saved]
    return "; ".join(["stopped", *parts, "the same command continues the run"])


# ── going on where an earlier run was ───────────────────────────────────────────────────────────────────────


def _clock_began(left: Left) -> float:
    """The clock of an unfinished run goes on while Headway is away. That of a finished one stands still."""
    if left.head is None:
        return time.time()
    now = time.time()
    return now - left.now if left.complete else clock_zero(left.head.began, left.now, now)


def _going_on(left: Left, queue: QueueFiles, folder: Path, began: float, key: bytes) -> GoingOn:
    jobs = queue.gone_on_with(began, left.now)
    return go_on(left, jobs, time.time() - began, partial(_saved_at, folder, began), key)


def _saved_at(folder: Path, began: float, job: JobId) -> float | None:
    written = newest_write(folder, job)
    return None if written is None else written - began


def _tell(file: Path, folder: Path, left: Left, going: GoingOn) -> None:
    """Says what becomes of each job of an earlier run, and sets aside the folders of those that start afresh."""
    if not left.last:
        return
    found = going.found
    aside = _set_aside(folder, *found.afresh)
    sayings = {
        "finished before, is kept": found.finished, "goes on": found.unfinished,
        "failed or was cancelled, runs again from its checkpoint": found.again,
        "was edited, goes on from its checkpoint": found.edited,
        f"runs something else now, starts afresh{f'; the old is in {_short(aside)}' if aside else ''}": found.afresh,
        "is new": found.new, f"is no longer in {file.name}, is cancelled; its checkpoint stays": found.removed,
    }  # fmt: skip
    for saying, jobs in sayings.items():
        if jobs:
            say(f"{file}: {saying}: {some(jobs)}", error=True)
    if going.is_idle:
        say(f"{file}: nothing is left to run; --fresh runs all again", error=True)


def _set_aside(folder: Path, *jobs: JobId) -> Path | None:
    return set_aside(folder, [folder / part / job for job in jobs for part in PARTS])


def _told(going: GoingOn) -> dict[JobId, State]:
    """The states that an earlier run has announced."""
    return {job.id: State(change.state) for job, change in going.restored}


def _continued(here: LocalCluster, going: GoingOn) -> LocalCluster:
    """Puts every job of an earlier run where that run left it."""
    for job, change in going.restored:
        here.restore(job, partial(_restore, change))
    return here


def _restore(change: Change, board: Board, row: int) -> None:
    restore(board, row, change)


def observing(writer: LogWriter, live: Live, signals: Signals, guard: TrainedGuard | None = None) -> Observer:
    """Writes the log first: it must be on disk before the plan is carried out."""

    def observe(decided: Decided) -> None:
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        live.show(decided)
        if guard is not None:
            guard.observe(decided)
        if signals.leaving and not signals.said:
            signals.said = True
            live.say("stopping: every job that can save is asked to; Ctrl-C again ends all at once")

    return observe


def _report(folder: Path, jobs: set[JobId], *, as_json: bool) -> None:
    """Shows the jobs of the file, each as it came last. The log has those before it, too."""
    tally = Tally(courses=True)
    for line in read(folder / "run.log"):
        tally(line)
    tally.close()
    newest = {course.job.id: serial for serial, course in tally.courses.items()}
    tally.courses = {newest[job]: tally.courses[newest[job]] for job in newest if job in jobs}
    show_result(tally, as_json=as_json)
    if not as_json:
        from headway.record.picture import draw

        picture = draw(tally, folder / "run.png")
        print(f"log      {_short(folder / 'run.log')}")
        print(f"picture  {_short(picture)}" if picture else "picture  not drawn: matplotlib is not installed")
    result = tally.result()
    if result["failed"] or result["unfinished"]:
        raise typer.Exit(1)


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _nodes(file: Path, workload: JobsFile, cluster: str, machine: Node) -> list[Node]:
    nodes = parse_cluster(cluster) if cluster else list(workload.nodes) or [machine]
    check_nodes("--cluster" if cluster else str(file), nodes, machine)
    return nodes


def _check(nodes: Sequence[Node], settings: Sequence[str], queue: QueueFiles) -> None:
    """Refuses jobs that can never run here, before anything is started."""
    for where, jobs in queue.by_file():
        check_jobs(where, jobs, nodes)
        check_programs(where, jobs)
        check_claims(Path(where), settings, jobs)
