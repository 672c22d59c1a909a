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
from dataclasses import replace
from pathlib import Path

from headway.core.board import Board
from headway.core.gang import ask_again_at
from headway.core.job import Job, JobId
from headway.core.jobs.view import Jobs
from headway.core.node import Nodes
from headway.core.plan import Action, Plan, Reserve, Start
from headway.core.quantity import GPU
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import IN_FLIGHT, OVER, TRAINING, State
from headway.local.device_pool import DevicePool, Owner
from headway.local.editing import NO_WISHES, Editing, Wishes
from headway.local.flights import FlightSteps, Landing, Pilot
from headway.local.gang import Gang, RunContext
from headway.local.leaving import end_all, leave
from headway.local.limits import ControlGroups
from headway.local.machine import about_sharing, cores_of
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
        self.control_groups = ControlGroups(run, cgroups=settings.cgroups, max_processes=settings.max_processes)
        self._cores = cores_of(nodes.nodes, settings.foreign_cores)
        self.devices = DevicePool(settings.devices)
        context = RunContext(
            self.control_groups, self._cores, nodes.kinds, settings.folder, self.server.address, self.devices
        )  # fmt: skip
        pilot = Pilot(self.now, self.server, settings.timeouts, settings.restart_limits)
        self.roster = Roster(self.board, jobs, pilot, context)
        self._editing = Editing(self.roster, wishes)
        self._stays = settings.stays
        self.roster.happened = settings.stays  # a queue shows at once that it is there
        self._wake_at = math.inf
        self._sampled = self._save_at = -math.inf
        self._reported = False  # since the last snapshot, a step
        self._shown: Jobs | None = None  # the jobs of the last snapshot
        self.leaving = False
        self.left: dict[JobId, Landing] = {}
        self._leaves: dict[JobId, FlightSteps] = {}

    def now(self) -> float:
        """Seconds on the run's clock. It never goes back, even if the wall clock is set back."""
        return time.monotonic() + self._offset

    def about_sharing(self, jobs: Sequence[Job]) -> str:
        """What a user of `limit` should know about this machine; empty where it is as on nodes of their own."""
        nodes = self.board.nodes.nodes
        return about_sharing(jobs, nodes, self._cores, cgroups=self.control_groups.by_cgroup)

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            if not self.leaving:
                self.roster.arrive()
            self._receive()
            self._watch_devices()
            self.roster.judge()
            if self.leaving:
                self._see_off()
            self.roster.advance()
            if not self.leaving and self.now() >= self._save_at:
                self._save_at = self.now() + SAMPLE_SECONDS
                self.roster.save_by_time()
            if not self.leaving:  # before a policy sees a job that was stopped to be changed
                self._editing.step(at_once=not self.is_unfinished and not self._stays)
            self._count_devices()
            now = self.now()
            due = now >= self._wake_at or (self._reported and now - self._sampled >= SAMPLE_SECONDS)
            if self.roster.happened or due:
                return self._snapshot(now)
            if self.leaving and not self.roster.flights and not self._leaves:
                return None
            if not self.is_unfinished and not self._stays:
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
        if not at_once:
            self.roster.commands.close()
        self.devices.close()
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
            self._measure(now)
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

    def _watch_devices(self) -> None:
        """What the drivers of the GPUs say is taken in and told."""
        if self.devices.is_empty:
            return
        shims = {
            replica.process.pid: Owner(gang.job.id, replica.grant)
            for gang in self.roster.gangs.values() for replica in gang.alive()
        }  # fmt: skip
        for about, sentence in self.devices.step(shims, self.now()):
            self.board.note(about, sentence)
            self.roster.happened = True

    def _count_devices(self) -> None:
        """A node has the GPUs that can be given out, and those that jobs have."""
        changes = {}
        for number, node in enumerate(self.board.nodes.nodes):
            capacity = dict(node.capacity)
            count = self.devices.capacity(number)
            if count is not None and count != capacity.get(GPU, 0):
                changes[number] = replace(node, capacity=tuple(sorted((capacity | {GPU: count}).items())))
        if changes:
            self.board.adjust(self.board.nodes.replaced(changes), changes)
            self.roster.happened = True

    def _measure(self, now: float) -> None:
        for job_id, gang in self.roster.gangs.items():
            row = self.board.row(job_id)
            if row is not None and self.board.state(row) in TRAINING:
                self.board.uses_gpus(row, gang.used_gpus())
                cores = gang.used_cores(now)
                if cores is not None:
                    gang.use.append(cores)
                    self.board.uses(row, round(max(gang.use), 3))
                self._follow_memory(row, gang, now)

    def _follow_memory(self, row: int, gang: Gang, now: float) -> None:
        """A job whose user names nothing holds the memory that it needs, so that others have room beside it."""
        placement = self.board.placement(row)
        if placement is not None and self.board.state(row) is State.RUNNING:
            found = gang.follow_memory(placement, self.board.free(), now)
            if found is not placement:
                self.board.holds_now(row, found)

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
                begins = gang.step < 0
                if not gang.accept_step(step):
                    return
                gang.total_steps = total or gang.total_steps
                if begins and (goes_on := gang.seen.sentence(step if event.first is None else event.first)):
                    self.board.note(gang.job.id, goes_on)
                gang.seen = gang.seen.reported(step, self.now())
                metric = event.metric(gang.job.target)
                self.board.sampled(Sample(gang.job.id, self.now(), step, loss, gang.total_steps, metric))
                self._reported = True
            case Saved() | SaveFailed():
                self._answered(gang, event)

    def _answered(self, gang: Gang, event: Saved | SaveFailed) -> None:
        before, job_id = gang.saves, gang.job.id
        gang.answered(event, self.now())
        row = self.board.row(job_id)
        whole = gang.saves.is_complete and not before.is_complete
        if row is not None and self.board.state(row) not in OVER and (whole or event.request is None):
            self.board.saved(row, self.board.trained_seconds(row, self.now()))
        by_time = job_id not in self.roster.flights and not self.leaving
        if gang.saves.failed and not before.failed and by_time:
            self.board.note(job_id, f"it could not save and trains on: {gang.saves.failed}")
            self.roster.happened = True

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
