"""`headway run`: real training processes on this machine under a policy."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import signal
import time
from pathlib import Path
from types import FrameType
from typing import IO, Annotated

import typer

from headway.cli.live import Live
from headway.cli.options import Cluster, Estimates, Json, PolicyName, Queues, Set
from headway.cli.show import show_result
from headway.cli.wiring import after, make_book, make_policy, parse_cluster, queue_setting, safe_policy
from headway.core.errors import UserError
from headway.core.node import Node, Nodes
from headway.cycle.loop import Decided, Observer
from headway.cycle.loop import run as run_loop
from headway.local.claims import claim_machine, machine_left
from headway.local.cluster import LocalCluster
from headway.local.machine import check_jobs, check_nodes
from headway.local.replica import missing_program
from headway.local.settings import LocalSettings, LocalTimeouts, clock_zero
from headway.record.gate import LogGate
from headway.record.lines import Head
from headway.record.log import LogWriter, read
from headway.record.logfile import private
from headway.record.metrics import Tally
from headway.record.replay import restore
from headway.record.resume import Left, left_behind
from headway.workload.jobsfile import JobsFile, load_all


def run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Jobs files (YAML).")],
    policy: PolicyName = "headway",
    settings: Set = [],  # noqa: B006  typer copies it
    queues: Queues = None,
    cluster: Cluster = "",
    estimates: Estimates = "progress",
    state: Annotated[
        Path | None, typer.Option(help="Keep log, output and checkpoints in this folder. Default: .headway/NAME.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard an unfinished run and start over.")] = False,
    save_seconds: Annotated[float, typer.Option(help="Give a job this long to save a checkpoint when asked.")] = 30.0,
    cgroups: Annotated[
        bool, typer.Option(help="Limit cpu and memory by cgroup where permitted. Otherwise: cpu by affinity.")
    ] = True,
    share: Annotated[bool, typer.Option("--share", help="Take what other runs leave of this machine.")] = False,
    json: Json = False,
) -> None:
    """Train jobs for real on this machine. After a crash or Ctrl-C, the same command continues the run."""
    workload, file = load_all(files), files[0]
    nodes = _nodes(file, workload, cluster, machine_left(share=share))
    _check_programs(file, workload)
    settings = [*settings, *queue_setting(queues)]
    chosen, book = make_policy(policy, settings), make_book(estimates)
    folder = (state or Path(".headway") / file.stem).resolve()
    lock = _lock(folder)
    claim = claim_machine(folder, nodes, share=share)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    left = _earlier(folder, f"{file.name} {digest}", fresh=fresh)
    book = after(book, folder / "run.log")
    began = clock_zero(left.head.began, left.now, time.time()) if left.head else time.time()
    head = Head("local", policy, estimates, {"set": list(settings)}, 0, began, f"{file.name} {digest}")
    setup = LocalSettings(
        folder=folder, began=began, timeouts=LocalTimeouts(save=save_seconds), cgroups=cgroups,
        foreign_cores=claim.foreign_cores,
    )  # fmt: skip
    here = _continued(LocalCluster(Nodes.of(nodes), workload.jobs, setup), left)
    writer = LogWriter(folder / "run.log", head, durable=True)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Live(quiet=json) as live:
            run_loop(LogGate(here, writer, live.say), chosen, book, observing(writer, live), safe_policy)
        writer.end(here.now(), here.board.unfinished)
    except KeyboardInterrupt:
        writer.close()
        print(f"\ninterrupted; the same command continues the run ({_short(folder)})")
        raise typer.Exit(130) from None
    finally:
        here.close()
        claim.close()
        lock.close()
    _report(folder, as_json=json)


def _continued(here: LocalCluster, left: Left) -> LocalCluster:
    """Puts every job of an earlier run where that run left it."""
    for serial, job in left.jobs.items():
        if serial in left.last:
            change = left.last[serial]
            here.restore(job, lambda board, row, change=change: restore(board, row, change))  # type: ignore[misc]
    return here


def observing(writer: LogWriter, live: Live) -> Observer:
    """Writes the log first: it must be on disk before the plan is carried out."""

    def observe(decided: Decided) -> None:
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        live.show(decided)

    return observe


def _report(folder: Path, *, as_json: bool) -> None:
    tally = Tally(courses=True)
    for line in read(folder / "run.log"):
        tally(line)
    tally.close()
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
    check_jobs(str(file), workload.jobs, nodes)
    return nodes


def _check_programs(file: Path, workload: JobsFile) -> None:
    for job in workload.jobs:
        for role in job.roles:
            if not role.command:
                raise UserError(
                    f"{file}: job {job.id!r}, role {role.name!r}: field command: is empty; give the program to run"
                )
            missing = missing_program(job, role)
            if missing:
                raise UserError(f"{file}: job {job.id!r}, role {role.name!r}: field command: {missing} does not exist")


def _lock(folder: Path) -> IO[bytes]:
    """Locks the folder: two runs in one folder would end each other's processes."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = open(folder / "lock", "wb", opener=private)  # noqa: SIM115  the caller closes it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UserError(f"{folder}: another headway run uses this folder; give another --state") from error
    return lock


def _earlier(folder: Path, source: str, *, fresh: bool) -> Left:
    """What an unfinished run of the same jobs left; a finished run is cleared away."""
    log = folder / "run.log"
    left = left_behind(log) if log.exists() and not fresh else Left()
    if left.head is not None and not left.complete:
        if left.head.source != source:
            raise UserError(
                f"{log}: has an unfinished run of other jobs ({left.head.source}); "
                f"discard it with --fresh, or give another --state"
            )
        return left
    for name in ("checkpoints", "output"):
        shutil.rmtree(folder / name, ignore_errors=True)
    log.unlink(missing_ok=True)
    return Left()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
