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
from headway.core.gang import ask_again_at
from headway.core.job import Job, JobId
from headway.core.jobs.view import Jobs
from headway.core.node import Nodes
from headway.core.plan import Action, Plan, Reserve, Start
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import IN_FLIGHT, OVER, TRAINING, State
from headway.local.editing import NO_WISHES, Editing, Wishes
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang, RunContext
from headway.local.leaving import end_all, leave
from headway.local.limits import ControlGroups
from headway.local.machine import cores_of
from headway.local.roster import Roster
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

    def __init__(self, nodes: Nodes, jobs: Sequence[Job], settings: LocalSettings, wishes: Wishes = NO_WISHES) -> None:
        self.board = Board(nodes, self._compacted)
        self._offset = time.time() - settings.began - time.monotonic()
        self._socket_folder = Path(tempfile.mkdtemp(prefix="headway-"))
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        os.set_blocking(self._wake_reader, False)
        self.server = ProgressServer(f"unix:{self._socket_folder / 'progress'}", self._wake_up)
        run = f"{zlib.crc32(bytes(settings.folder.resolve())):08x}"
        self.control_groups = ControlGroups(run, cgroups=settings.cgroups, most_processes=settings.most_processes)
        cores = cores_of(nodes.nodes, settings.foreign_cores)
        context = RunContext(self.control_groups, cores, nodes.kinds, settings.folder, self.server.address)
        pilot = Pilot(self.now, self.server, settings.timeouts, settings.restart_limits)
        self.roster = Roster(self.board, jobs, pilot, context)
        self._editing = Editing(self.roster, wishes)
        self._wake_at = math.inf
        self._sampled = -math.inf
        self._reported = False  # since the last snapshot, a step
        self._shown: Jobs | None = None  # the jobs of the last snapshot
        self.leaving = False
        self.left: dict[JobId, Landing] = {}
        self._leaves: dict[JobId, FlightSteps] = {}

    def now(self) -> float:
        """Seconds on the run's clock. It never goes back, even if the wall clock is set back."""
        return time.monotonic() + self._offset

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            if not self.leaving:
                self.roster.arrive()
            self._receive()
            self.roster.judge()
            if self.leaving:
                self._see_off()
            self.roster.advance()
            if not self.leaving:  # before a policy sees a job that was stopped to be changed
                self._editing.step(at_once=not self.is_unfinished)
            now = self.now()
            due = now >= self._wake_at or (self._reported and now - self._sampled >= SAMPLE_SECONDS)
            if self.roster.happened or due:
                return self._snapshot(now)
            if not self.is_unfinished or (self.leaving and not self.roster.flights and not self._leaves):
                return None
            self._wait(now)

    def apply(self, plan: Plan) -> None:
        self.board.compact()
        self._wake_at = plan.until
        for decision in plan.decisions:
            if not isinstance(decision, Reserve) and not self.leaving and self._may_begin(decision):
                self.roster.begin(decision)

    def leave(self) -> None:
        """Begin nothing more, and end when every job has saved, if it can, and has stopped. For signal handlers."""
        self.leaving = True

    @property
    def is_unfinished(self) -> bool:
        return bool(self.roster.arrivals or self.board.unfinished)

    def close(self, *, at_once: bool = False) -> None:
        """End every process of this run. A job that has not finished goes on from its checkpoint at the next start.

        With `at_once` nothing is waited for: the shims end all processes when Headway ends.
        """
        end_all(self.roster.gangs.values(), 0.0 if at_once else CLOSE_SECONDS)
        self.control_groups.close()
        self.server.close()
        self._socket_folder.rmdir()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def restore(self, job: Job, restore: Callable[[Board, int], None]) -> None:
        """Take over a job of an earlier run, over or waiting: its processes are gone, its checkpoint is still there."""
        restore(self.board, self.board.add(job, self.now()))
        self.roster.happened = True

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, now: float) -> Snapshot:
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            self._measure_cpu(now)
        if now >= self._wake_at:
            self._wake_at = math.inf
        self.roster.happened = self._reported = False
        snapshot = self.board.snapshot(now)
        self._shown = snapshot.jobs
        return snapshot

    def _compacted(self, kept: list[int]) -> None:
        """Jobs that are over have left the board, on which nothing has changed since the last snapshot."""
        if self._shown is not None:
            self._editing.have_left(self._shown, frozenset(kept))

    def _measure_cpu(self, now: float) -> None:
        for job_id, gang in self.roster.gangs.items():
            row = self.board.row(job_id)
            if row is not None and self.board.state(row) in TRAINING:
                cores = gang.used_cores(now)
                if cores is not None:
                    self.board.uses(row, round(cores, 3))

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 65536)
        for event in self.server.poll():
            gang = self.roster.gangs.get(event.job)
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

    def _see_off(self) -> None:
        """Every job leaves. It stays in flight, so that no policy touches it, until the next start of Headway."""
        for job_id, gang in self.roster.gangs.items():
            row = self.board.row(job_id)
            if row is not None and self.board.state(row) in (TRAINING | IN_FLIGHT) - {State.STOPPING}:
                self.roster.flights.pop(job_id, None)
                self._leaves[job_id] = leave(self.roster.pilot, gang, self.board.placement(row))
                self.board.begin(row, State.STOPPING, None, self.now(), self.now() + self.roster.pilot.timeouts.save)
                self.roster.happened = True
        for job_id in list(self._leaves):
            try:
                next(self._leaves[job_id])
            except StopIteration as ended:
                del self._leaves[job_id]
                self.left[job_id], self.roster.happened = ended.value, True
                if ended.value.state in OVER:
                    self.roster.land(self.board.table.row_of[job_id], self.roster.gangs[job_id], ended.value)

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────

    def _may_begin(self, decision: Action) -> bool:
        """Whether to begin it now. What the job has just refused waits, even if the policy asks for it again."""
        gang, now = self.roster.gangs.get(decision.job), self.now()
        if gang is None:
            return True
        then = ask_again_at(decision, gang.declined, gang.declined_at, now)
        if isinstance(decision, Start):
            then = max(then, gang.start_at)
        if then > now:
            self._wake_at = min(self._wake_at, then)
        return then <= now

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def _wake_up(self) -> None:
        """Called by the thread of the progress server: end the wait. A pipe that is full wakes as well."""
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b"!")

    def _wait(self, now: float) -> None:
        until = min(self._wake_at, self.roster.arrivals[0].submit if self.roster.arrivals else math.inf)
        select.select([self._wake_reader], [], [], max(0.0, min(LONGEST_WAIT_SECONDS, until - now)))
