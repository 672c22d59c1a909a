"""This machine as a cluster: takes snapshots of real processes and carries plans out on them.

It works in one thread. It waits for reports, for processes that end and for its clock, and returns a snapshot when
something happened that may need a decision.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from headway.core.board import Board
from headway.core.gang import GangState, ask_again_at
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.plan import Action, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import IN_FLIGHT, OVER, TRAINING, State
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang, RunContext
from headway.local.leaving import end_all, leave
from headway.local.limits import ControlGroups
from headway.local.machine import cores_of
from headway.local.settings import LocalSettings
from headway.progress_server import Connected, Event, ProgressServer, Reported, Saved, SaveFailed

LONGEST_WAIT_SECONDS = 0.1
"""How often processes are looked at: nothing tells when one has ended."""
CLOSE_SECONDS = 15.0
"""How long a run waits at its end for processes that were told to stop; longer than their grace time."""
SAMPLE_SECONDS = 1.0
"""How often reports alone lead to a new snapshot, and how often the cpu that jobs use is measured."""


class LocalCluster:
    """The cluster that `headway run` drives; close it at the end, also after an error."""

    def __init__(self, nodes: Nodes, jobs: Sequence[Job], settings: LocalSettings) -> None:
        self.board = Board(nodes)
        self._offset = time.time() - settings.began - time.monotonic()
        self._arrivals = sorted(jobs, key=lambda job: job.submit)
        self._gangs: dict[JobId, Gang] = {}
        self._flights: dict[JobId, FlightSteps] = {}
        self._socket_folder = Path(tempfile.mkdtemp(prefix="headway-"))
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        os.set_blocking(self._wake_reader, False)
        self.server = ProgressServer(f"unix:{self._socket_folder / 'progress'}", self._wake_up)
        run = f"{zlib.crc32(bytes(settings.folder.resolve())):08x}"
        self.control_groups = ControlGroups(run, cgroups=settings.cgroups, most_processes=settings.most_processes)
        cores = cores_of(nodes.nodes, settings.foreign_cores)
        self._context = RunContext(self.control_groups, cores, nodes.kinds, settings.folder, self.server.address)
        self._pilot = Pilot(self.now, self.server, settings.timeouts, settings.restart_limits)
        self._wake_at = math.inf
        self._happened = False  # since the last snapshot, something that may need a decision
        self._sampled = -math.inf
        self._reported = False  # since the last snapshot, a step
        self.leaving = False
        self.left: dict[JobId, Landing] = {}
        self._leaves: dict[JobId, FlightSteps] = {}

    def now(self) -> float:
        """Seconds on the run's clock. It never goes back, even if the wall clock is set back."""
        return time.monotonic() + self._offset

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            self._add_arrivals()
            self._receive()
            self._watch_processes()
            if self.leaving:
                self._see_off()
            self._advance_flights()
            now = self.now()
            due = now >= self._wake_at or (self._reported and now - self._sampled >= SAMPLE_SECONDS)
            if self._happened or due:
                return self._snapshot(now)
            if not self.is_unfinished or (self.leaving and not self._flights and not self._leaves):
                return None
            self._wait(now)

    def apply(self, plan: Plan) -> None:
        self._wake_at = plan.until
        for decision in plan.decisions:
            if not isinstance(decision, Reserve) and not self.leaving and self._may_begin(decision):
                self._begin(decision)

    def leave(self) -> None:
        """Begin nothing more, and end when every job has saved, if it can, and has stopped. For signal handlers."""
        self.leaving = True

    @property
    def is_unfinished(self) -> bool:
        return bool(self._arrivals or self.board.unfinished)

    def close(self, *, at_once: bool = False) -> None:
        """End every process of this run. A job that has not finished goes on from its checkpoint at the next start.

        With `at_once` nothing is waited for: the shims end all processes when Headway ends.
        """
        end_all(self._gangs.values(), 0.0 if at_once else CLOSE_SECONDS)
        self.control_groups.close()
        self.server.close()
        self._socket_folder.rmdir()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def restore(self, job: Job, restore: Callable[[Board, int], None]) -> None:
        """Take over a job of an earlier run, over or waiting: its processes are gone, its checkpoint is still there."""
        restore(self.board, self.board.add(job, self.now()))
        self._happened = True

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, now: float) -> Snapshot:
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            self._measure_cpu(now)
        if now >= self._wake_at:
            self._wake_at = math.inf
        self._happened = self._reported = False
        return self.board.snapshot(now)

    def _measure_cpu(self, now: float) -> None:
        for job_id, gang in self._gangs.items():
            row = self.board.row(job_id)
            if row is not None and self.board.state(row) in TRAINING:
                cores = gang.used_cores(now)
                if cores is not None:
                    self.board.uses(row, round(cores, 3))

    def _add_arrivals(self) -> None:
        while self._arrivals and not self.leaving and self._arrivals[0].submit <= self.now():
            self.board.add(self._arrivals.pop(0), self.now())
            self._happened = True

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 65536)
        for event in self.server.poll():
            gang = self._gangs.get(event.job)
            if gang is not None and event.attempt == gang.attempt:
                self._handle(gang, event)

    def _handle(self, gang: Gang, event: Event) -> None:
        match event:
            case Connected():
                gang.connected(event)
            case Reported(step=step, loss=loss, total_steps=total):
                if not gang.accept_step(step):
                    return
                gang.total_steps = total or gang.total_steps
                metric = event.metric(gang.job.target)
                self.board.sampled(Sample(gang.job.id, self.now(), step, loss, gang.total_steps, metric))
                self._reported = True
            case Saved(request=request):
                gang.saves = gang.saves.answered((event.role, event.index), request)
                row = self.board.row(gang.job.id)
                if row is not None and self.board.state(row) not in OVER:
                    self.board.saved(row, self.board.trained_seconds(row, self.now()))
            case SaveFailed(request=request, why=why):
                gang.saves = gang.saves.answered((event.role, event.index), request, why)

    def _watch_processes(self) -> None:
        for job_id, gang in self._gangs.items():
            row = self.board.row(job_id)
            if row is None or self.board.state(row) not in TRAINING or job_id in self._flights:
                continue
            self._judge(row, gang)

    def _judge(self, row: int, gang: Gang) -> None:
        """End the job, or take it down, if its processes are done, failed or lost."""
        verdict = gang.verdict(self.now(), self._pilot.timeouts.grace)
        if verdict.state is GangState.DONE and not gang.alive():
            self._land(row, gang, Landing(State.FINISHED, None))
        elif verdict.state is GangState.DONE:
            self._bring_down(row, gang, Landing(State.FINISHED, None))
        elif verdict.state in (GangState.FAILED, GangState.LOST):
            self._bring_down(row, gang, self._pilot.after_break(gang, verdict))

    def _bring_down(self, row: int, gang: Gang, landing: Landing) -> None:
        """Stop what is left of the gang. The job is in flight meanwhile, so no policy touches it."""
        self.board.begin(row, State.STOPPING, None, self.now(), self.now() + self._pilot.timeouts.stop)
        self._flights[gang.job.id] = self._pilot.take_down(gang, landing)
        self._happened = True

    def _advance_flights(self) -> None:
        for job_id in list(self._flights):
            try:
                next(self._flights[job_id])
            except StopIteration as ended:
                del self._flights[job_id]
                row = self.board.row(job_id)
                assert row is not None
                self._land(row, self._gangs[job_id], ended.value)

    def _see_off(self) -> None:
        """Every job leaves. It stays in flight, so that no policy touches it, until the next start of Headway."""
        for job_id, gang in self._gangs.items():
            row = self.board.table.row_of[job_id]
            if self.board.state(row) in (TRAINING | IN_FLIGHT) - {State.STOPPING}:
                self._flights.pop(job_id, None)
                self._leaves[job_id] = leave(self._pilot, gang, self.board.placement(row))
                self.board.begin(row, State.STOPPING, None, self.now(), self.now() + self._pilot.timeouts.save)
                self._happened = True
        for job_id in list(self._leaves):
            try:
                next(self._leaves[job_id])
            except StopIteration as ended:
                del self._leaves[job_id]
                self.left[job_id], self._happened = ended.value, True
                if ended.value.state in OVER:
                    self._land(self.board.table.row_of[job_id], self._gangs[job_id], ended.value)

    def _land(self, row: int, gang: Gang, landing: Landing) -> None:
        """The job's flight has ended: record its state, and what it refused."""
        if gang.broken is not None:
            landing, gang.broken = self._pilot.after_break(gang, gang.broken), None
        if landing.refused:
            landing = self._pilot.after_refusal(gang, landing)
        if landing.state is State.WAITING and not landing.saved:
            self.board.settle(row, State.WAITING, None, self.now())
            self.board.rewind(row)
        else:
            self.board.settle(row, landing.state, landing.placement, self.now())
        if landing.why:
            self.board.note(gang.job.id, landing.why)
        if landing.state is State.RUNNING:
            gang.refusals = 0
        if landing.state is State.RUNNING and landing.why:
            gang.declined, gang.declined_at = gang.declined + 1, self.now()
        else:
            gang.declined = 0
        self._happened = True

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────

    def _may_begin(self, decision: Action) -> bool:
        """Whether to begin it now. What the job has just refused waits, even if the policy asks for it again."""
        gang, now = self._gangs.get(decision.job), self.now()
        if gang is None:
            return True
        then = ask_again_at(decision, gang.declined, gang.declined_at, now)
        if isinstance(decision, Start):
            then = max(then, gang.start_at)
        if then > now:
            self._wake_at = min(self._wake_at, then)
        return then <= now

    def _begin(self, decision: Action) -> None:
        row = self.board.row(decision.job)
        assert row is not None
        job, old = self.board.job(row), self.board.placement(row)
        gang = self._gangs.get(job.id) or self._new_gang(row)
        state, target = self.board.aim(row, decision)
        self.board.begin(row, state, target, self.now(), self.now() + self._pilot.timeouts.start)
        match decision:
            case Start(placement=placement):
                gang.begin_attempt(gang.attempt + 1)
                self._flights[job.id] = self._pilot.start(gang, placement)
            case Scale() if old is not None and target is not None:
                self._flights[job.id] = self._pilot.scale(gang, old, target)
            case Resize() if old is not None and target is not None:
                self._flights[job.id] = self._pilot.resize(gang, old, target)
            case Move() if old is not None and target is not None:
                self._flights[job.id] = self._pilot.move(gang, old, target)
            case Stop(because=because) if old is not None:
                self._flights[job.id] = self._pilot.stop(gang, old, because)

    def _new_gang(self, row: int) -> Gang:
        table = self.board.table
        gang = Gang(self.board.job(row), table.shapes[int(table.get("shape", row))], self._context)
        gang.attempt = int(table.get("stops", row))
        self._gangs[gang.job.id] = gang
        return gang

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def _wake_up(self) -> None:
        """Called by the thread of the progress server: end the wait. A pipe that is full wakes as well."""
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b"!")

    def _wait(self, now: float) -> None:
        until = min(self._wake_at, self._arrivals[0].submit if self._arrivals else math.inf)
        select.select([self._wake_reader], [], [], max(0.0, min(LONGEST_WAIT_SECONDS, until - now)))
