"""Real training on this machine under a policy: what `headway run` and the queue of `headway up` have in common."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headway.cli.machine.how import HowToTrain
from headway.cli.machine.jobs_watch import QueueFiles, some
from headway.cli.machine.page_feed import live_page
from headway.cli.machine.queue import say_what_counts
from headway.cli.machine.queue_status import StatusFile
from headway.cli.screen.clock_times import LooksAhead
from headway.cli.screen.live import Live
from headway.cli.screen.say import say
from headway.cli.signals import Signals
from headway.cli.wiring import (
    beliefs_for,
    check_claims,
    for_live,
    guard_for,
    head_settings,
    keep_beliefs,
    keeping,
    make_book,
    make_policy,
    no_sharing,
    parse_cluster,
    pauses_of,
    safe_policy_for,
    warn,
)
from headway.core.board import Board
from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.node import Node, Nodes
from headway.core.policy import Policy
from headway.core.states import OVER, State
from headway.cycle.loop import Decided, Observer
from headway.cycle.loop import run as run_loop
from headway.local.added import RunCard, leave_card
from headway.local.claims import claim_machine, devices_left, machine_left
from headway.local.cluster import LocalCluster
from headway.local.device_pool import Devices, equipped
from headway.local.devices import Device, Drivers, chosen
from headway.local.editing import Wish, Wishes
from headway.local.gpu_locks import lock_folder
from headway.local.leaving import NOT_BEGUN
from headway.local.machine import check_jobs, check_nodes
from headway.local.replica import check_programs
from headway.local.settings import LocalSettings, LocalTimeouts, clock_zero
from headway.local.state_folder import (
    PARTS,
    earlier,
    env_key,
    has_run,
    is_locked,
    lock,
    newest_write,
    set_aside,
)
from headway.record.lines import Change, Head
from headway.record.log import LogWriter
from headway.record.log_gate import LogGate
from headway.record.replay import restore
from headway.record.resume import GoingOn, Left, go_on
from headway.record.rotation import MIB, Rotation
from headway.workload.deadlines import deadline_warnings

if TYPE_CHECKING:
    from headway.trained.guard import TrainedGuard

LOG_MEGABYTES = 32
"""The log of a queue that stays is put aside at this size; the next begins with all that counts."""
KEPT_OVER = 200
"""Jobs that are over, of which a queue that starts again tells how they ended."""


def train(files: Sequence[Path], queue: QueueFiles, how: HowToTrain) -> None:
    """Trains the jobs of the queue until all are over; with `stays` until it is told to end."""
    folder = queue.folder
    nodes, devices = _checked(queue, how)
    decider, known = _decider(how), beliefs_for(how.estimates, how.beliefs)
    with ExitStack() as stack:
        stack.enter_context(closing(lock(folder)))
        claim = stack.enter_context(closing(claim_machine(folder, nodes, devices.all, share=how.share)))
        file = queue.workload.path
        left = earlier(folder, file, fresh=how.fresh)
        began = _clock_began(left)
        if how.stays:
            queue.put_away(queue.over_before(left, began))
        key = env_key(folder)
        going = _going_on(left, queue, began, key)
        _tell(file, folder, left, going, idle=not how.stays)
        idle = bool(left.last) and going.is_idle and not how.stays
        page = stack.enter_context(live_page(file.name, how.policy, wanted=how.page and not idle))
        there = [str(file.resolve()) for file in files], list(nodes), how.settings, os.getpid()
        say_what_counts(folder, queue.workload.jobs)
        leave_card(folder, RunCard(*there, page.address if page else "", dict(queue.pauses)), needed=how.stays)
        if idle:
            return
        head = _head(files, file, how, head_settings(known, how.policy, how.settings), began)
        setup = LocalSettings(
            folder=folder, began=began, timeouts=LocalTimeouts(save=how.save_seconds), cgroups=how.cgroups,
            foreign_cores=claim.foreign_cores, devices=devices, stays=how.stays,
        )  # fmt: skip
        book = keep_beliefs(how.estimates, known, folder / "run.log")
        ahead = LooksAhead(partial(make_policy, how.policy, how.settings), began)
        live = Live(quiet=how.quiet, told=_told(going), ahead=ahead)
        status = StatusFile(folder, began, queue, ahead, page)
        queue.say = live.say
        wishes = Wishes(queue.workload.jobs, partial(_newer, queue, status), partial(_set_aside, folder), key)
        going = _without_old(going) if how.stays else going
        here = _continued(LocalCluster(Nodes.of(nodes), going.arriving, setup, wishes), left, going)
        loop = partial(run_loop, policy=decider, book=book, safe=safe_policy_for(how.settings))
        writer = _writer(folder, head, key, stays=how.stays)
        watch = _Watch(live, status, queue if how.stays else None)
        stack.enter_context(keeping(book))
        _train(here, loop, writer, watch, guard_for(how.policy, how.settings, folder / "run.log", known))


def _decider(how: HowToTrain) -> Policy:
    return for_live(how.policy, make_policy(how.policy, how.settings))


def _head(files: Sequence[Path], file: Path, how: HowToTrain, stamp: dict[str, Any], began: float) -> Head:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return Head("local", how.policy, how.estimates, stamp, 0, began, f"{file.name} {digest}")


def _writer(folder: Path, head: Head, key: bytes, *, stays: bool) -> LogWriter:
    writer = LogWriter(folder / "run.log", head, durable=True, key=key)
    if stays:
        writer.rotation = Rotation(LOG_MEGABYTES * MIB)
    return writer


def _checked(queue: QueueFiles, how: HowToTrain) -> tuple[list[Node], Devices]:
    """What the jobs of the queue may have, all of which fit there."""
    free, devices = _gpus(how.gpus, queue.folder, share=how.share, busy=how.busy_gpus)
    nodes, devices = equipped(_nodes(queue, how, len(free)), free, devices)
    queue.check = partial(_check, nodes, how.settings)
    queue.check(queue)
    queue.pauses = pauses = pauses_of(how.policy, how.settings)
    warn([*deadline_warnings(queue.workload.jobs, pauses), *no_sharing(how.policy, queue.workload.jobs)])
    return nodes, devices


def would_train(queue: QueueFiles, how: HowToTrain) -> None:
    """Starts nothing. Tells when jobs would start and be done, if the run began or went on now."""
    from headway.cli.jobs.eta import foresee

    folder, (nodes, _) = queue.folder, _checked(queue, how)
    if is_locked(folder):
        raise UserError(f"{queue.workload.path}: the run goes on; `headway eta` tells when its jobs are done")
    goes_on = has_run(folder) and not how.fresh
    left = earlier(folder, queue.workload.path, fresh=False) if goes_on else Left()
    began = _clock_began(left)
    going = _going_on(left, queue, began, env_key(folder) if left.last else b"")
    book = make_book(how.estimates, beliefs=beliefs_for(how.estimates, how.beliefs))
    foresee(
        going, nodes, _decider(how), book, began=began, log=folder / "run.log" if goes_on else None, as_json=how.quiet
    )


def _newer(queue: QueueFiles, status: StatusFile, at_once: bool) -> Wish | None:
    wish = queue.newer(at_once)
    status.step()
    return wish


def _without_old(going: GoingOn) -> GoingOn:
    """A queue that stays forgets how jobs ended long ago: its log need not begin with all of them."""
    over = [job.id for job, change in going.restored if State(change.state) in OVER]
    old = set(over[:-KEPT_OVER])
    return replace(going, restored=[both for both in going.restored if both[0].id not in old])


@dataclass(frozen=True, slots=True)
class _Watch:
    """Those who look on."""

    live: Live
    status: StatusFile
    queue: QueueFiles | None
    """One from which jobs are taken that are over."""

    def show(self, decided: Decided) -> None:
        self.live.show(decided)
        self.status.show(decided)
        if self.queue is not None:
            jobs = decided.snapshot.jobs
            newest = {row for row in decided.snapshot.changed if jobs.row_of.get(jobs.job(row).id) == row}
            over = [row for row in newest if jobs.state_of(row) in (State.FINISHED, State.FAILED)]
            self.queue.put_away(jobs.job(row).id for row in over)


def _train(
    here: LocalCluster, loop: Callable[..., None], writer: LogWriter, watch: _Watch, guard: TrainedGuard | None
) -> None:
    """Runs the loop to its end. The first signal lets every job save and stop, the second ends all at once."""
    writer.synced = True  # the log has all that is known of the run
    at_once = False
    signals = Signals(here.leave)
    try:
        with watch.live:
            gate = LogGate(here, writer, watch.live.say)
            watched = gate if guard is None else guard.watched(gate)
            loop(watched, observe=observing(writer, watch, signals, guard))
        if here.leaving and here.is_unfinished:
            writer.close()
            say(_goodbye(here, watch), error=True)
            raise typer.Exit(130 if watch.queue is None else 0)
        writer.end(here.now(), here.board.unfinished)
    except KeyboardInterrupt:
        at_once = True
        writer.close()
        say("ended at once; the same command continues the run", error=True)
        raise typer.Exit(130) from None
    finally:
        watch.status.close()
        here.close(at_once=at_once)
        signals.restore()
        if guard is not None:
            guard.close()


def _goodbye(here: LocalCluster, watch: _Watch) -> str:
    saved = [job for job, landing in here.left.items() if landing.saved]
    parts = [f"saved: {some(saved)}"] if saved else []
    not_begun = [job for job, one in here.left.items() if one.why == NOT_BEGUN]
    parts += [f"had not begun: {some(not_begun)}"] if not_begun else []
    others = [job for job, one in here.left.items() if one.why and not one.saved and one.state not in OVER]
    parts += [f"{job} did not save: {here.left[job].why}" for job in others if job not in not_begun]
    then = "the same command continues the run" if watch.queue is None else "`headway up` goes on"
    return "; ".join(["stopped", *parts, then])


# ── going on where an earlier run was ───────────────────────────────────────────────────────────────────────


def _clock_began(left: Left) -> float:
    """The clock of an unfinished run goes on while Headway is away. That of a finished one stands still."""
    if left.head is None:
        return time.time()
    now = time.time()
    return now - left.now if left.complete else clock_zero(left.head.began, left.now, now)


def _going_on(left: Left, queue: QueueFiles, began: float, key: bytes) -> GoingOn:
    jobs = queue.gone_on_with(began, left.now)
    return go_on(left, jobs, time.time() - began, partial(_saved_at, queue.folder, began), key)


def _saved_at(folder: Path, began: float, job: JobId) -> float | None:
    written = newest_write(folder, job)
    return None if written is None else written - began


def _tell(file: Path, folder: Path, left: Left, going: GoingOn, *, idle: bool) -> None:
    """Says what becomes of each job of an earlier run, and sets aside the folders of those that start afresh."""
    if not left.last:
        return
    found = going.found
    aside = _set_aside(folder, *found.afresh)
    sayings = {
        "finished before, is kept": found.finished, "goes on": found.unfinished,
        "failed or was cancelled, runs again from its checkpoint": found.again,
        "was edited, goes on from its checkpoint": found.edited,
        "has other arguments now, goes on from its checkpoint (fresh: true starts afresh)": found.other_arguments,
        f"runs something else now, starts afresh{f'; the old is in {shortly(aside)}' if aside else ''}": found.afresh,
        "is new": found.new, f"is no longer in {file.name}, is cancelled; its checkpoint stays": found.removed,
    }  # fmt: skip
    for saying, jobs in sayings.items():
        if jobs:
            say(f"{file}: {saying}: {some(jobs)}", error=True)
    if going.is_idle and idle:
        say(f"{file}: nothing is left to run; --fresh runs all again", error=True)


def _set_aside(folder: Path, *jobs: JobId) -> Path | None:
    return set_aside(folder, [folder / part / job for job in jobs for part in PARTS])


def _told(going: GoingOn) -> dict[JobId, State]:
    """The states that an earlier run has announced."""
    return {job.id: State(change.state) for job, change in going.restored}


def _continued(here: LocalCluster, left: Left, going: GoingOn) -> LocalCluster:
    """Puts every job of an earlier run where that run left it, and says what is not shared here."""
    afresh = set(going.found.afresh)
    here.roster.reached.update({job: seen.stopped() for job, seen in left.reached.items() if job not in afresh})
    here.roster.failures.update({job: count for job, count in left.failures.items() if job not in afresh})
    for job, change in going.restored:
        here.restore(job, partial(_restore, change))
    warn(filter(None, [here.about_sharing([*going.arriving, *(job for job, _ in going.restored)])]))
    return here


def _restore(change: Change, board: Board, row: int) -> None:
    restore(board, row, change)


def observing(writer: LogWriter, watch: _Watch, signals: Signals, guard: TrainedGuard | None = None) -> Observer:
    """Writes the log first: it must be on disk before the plan is carried out."""

    def observe(decided: Decided) -> None:
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        watch.show(decided)
        if guard is not None:
            guard.observe(decided)
        if signals.leaving and not signals.said:
            signals.said = True
            watch.live.say("stopping: every job that can save is asked to; Ctrl-C again ends all at once")

    return observe


def shortly(path: Path) -> Path:
    """As it is from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _nodes(queue: QueueFiles, how: HowToTrain, gpus: int) -> list[Node]:
    machine = machine_left(gpus, share=how.share)
    nodes = parse_cluster(how.cluster) if how.cluster else list(queue.workload.nodes) or [machine]
    check_nodes("--cluster" if how.cluster else str(queue.workload.path), nodes, machine)
    return nodes


def _gpus(wanted: str | None, folder: Path, *, share: bool, busy: bool) -> tuple[list[Device], Devices]:
    """The GPUs that this run may give out, and how to ask for them. Those that other runs have are left out."""
    drivers = Drivers()
    found = drivers.look()
    warn(f"{one.device} is lost: {one.lost}; it is left out until the next start" for one in found if not one.device.id)
    there = [reading.device for reading in found if reading.device.id]
    free = devices_left(chosen(there, wanted, os.environ), share=share)
    vendors = frozenset(device.vendor for device in (*there, *free))
    return free, Devices(vendors=vendors, look=drivers.look, busy=busy, locks=lock_folder(os.environ, folder))


def _check(nodes: Sequence[Node], settings: Sequence[str], queue: QueueFiles) -> None:
    """Refuses jobs that can never run here, before anything is started."""

    def check(where: str, jobs: Sequence[Job]) -> None:
        check_jobs(where, jobs, nodes)
        check_programs(where, jobs)
        check_claims(Path(where), settings, jobs)

    queue.check_each(check)
