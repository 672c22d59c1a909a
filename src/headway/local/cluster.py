"""This machine behind the seam: snapshots of real processes, plans carried out on them.

One thread; it waits for reports, for ends of processes and for clocks, and wakes the policy when something happened
that is worth a decision.
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
from dataclasses import dataclass, field
from pathlib import Path

from headway.core.board import Board
from headway.core.gang import Life, RestartLimits, Verdict, ask_again_at, back_off_seconds
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.plan import Action, Because, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import OVER, TRAINING, State
from headway.local.flights import Flight, Landing, Patience, Pilot
from headway.local.gang import Gang, Grounds
from headway.local.limits import Limits
from headway.local.machine import cores_of
from headway.progress_server import Connected, Event, ProgressServer, Reported, Saved, SaveFailed

BEAT_SECONDS = 0.1
SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where and how a run on this machine is kept."""

    folder: Path
    began: float
    """Seconds since 1970 at which the run's clock showed zero; kept over restarts."""
    patience: Patience = field(default_factory=Patience)
    cgroups: bool = True
    limits: RestartLimits = field(default_factory=RestartLimits)


class LocalCluster:
    def __init__(self, nodes: Nodes, jobs: Sequence[Job], setup: Setup) -> None:
        self.board = Board(nodes)
        self._offset = time.time() - setup.began - time.monotonic()
        self._arrivals = sorted(jobs, key=lambda job: job.submit)
        self._gangs: dict[JobId, Gang] = {}
        self._flights: dict[JobId, Flight] = {}
        self._socket_folder = Path(tempfile.mkdtemp(prefix="headway-"))
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        os.set_blocking(self._ear, False)
        self.server = ProgressServer(f"unix:{self._socket_folder / 'progress'}", self._ring)
        self.limits = Limits(f"{zlib.crc32(bytes(setup.folder.resolve())):08x}", cgroups=setup.cgroups)
        self._grounds = Grounds(self.limits, cores_of(nodes.nodes), nodes.kinds, setup.folder, self.server.address)
        self._limits = setup.limits
        self._pilot = Pilot(self.now, self.server, setup.patience)
        self._wake = math.inf
        self._happened = False
        self._sampled = -math.inf
        self._heard = False

    def now(self) -> float:
        """Seconds on the run's clock; never goes back, also not when the wall clock is set."""
        return time.monotonic() + self._offset

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        while True:
            self._arrive()
            self._hear()
            self._watch_processes()
            self._fly()
            now = self.now()
            if self._happened or now >= self._wake or (self._heard and now - self._sampled >= SAMPLE_SECONDS):
                return self._snapshot(now)
            if not self._arrivals and not self.board.unfinished:
                return None
            self._wait(now)

    def apply(self, plan: Plan) -> None:
        self._wake = plan.until
        for decision in plan.decisions:
            if not isinstance(decision, Reserve) and self._may_begin(decision):
                self._begin(decision)

    def close(self) -> None:
        """Ends every process of this run. What was not finished goes on from its checkpoint at the next start."""
        for gang in self._gangs.values():
            for replica in gang.replicas:
                replica.tell_to_stop()
        give_up = time.monotonic() + 15
        while any(gang.alive() for gang in self._gangs.values()) and time.monotonic() < give_up:
            time.sleep(0.05)
        self.limits.close()
        self.server.close()
        self._socket_folder.rmdir()
        for end in (self._ear, self._mouth):
            os.close(end)

    def restore(self, job: Job, restore: Callable[[Board, int], None]) -> None:
        """A job of an earlier, interrupted run. Its processes are gone; what it had saved is not."""
        self._arrivals = [other for other in self._arrivals if other.id != job.id]
        row = self.board.add(job, self.now())
        restore(self.board, row)
        if self.board.state(row) not in OVER | {State.WAITING}:
            self.board.restore(row, State.WAITING, None, None)
            self.board.table.set("since", row, self.now())
            self.board.rewind(row)
        self._happened = True

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, now: float) -> Snapshot:
        for job_id, gang in self._gangs.items():
            row = self.board.row(job_id)
            if row is not None and self.board.state(row) in TRAINING and now - self._sampled >= SAMPLE_SECONDS:
                cores = gang.used_cores(now)
                if cores is not None:
                    self.board.uses(row, round(cores, 3))
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
        if now >= self._wake:
            self._wake = math.inf
        self._happened = self._heard = False
        return self.board.snapshot(now)

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0].submit <= self.now():
            self.board.add(self._arrivals.pop(0), self.now())
            self._happened = True

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ear, 65536)
        for event in self.server.poll():
            gang = self._gangs.get(event.job)
            if gang is not None and event.attempt == gang.attempt:
                self._heard_from(gang, event)

    def _heard_from(self, gang: Gang, event: Event) -> None:
        match event:
            case Connected():
                gang.connected(event)
            case Reported(step=step, loss=loss, total_steps=total):
                if not gang.heard_step(step):
                    return
                gang.total_steps = total or gang.total_steps
                metric = event.metric(gang.job.target)
                self.board.sampled(Sample(gang.job.id, self.now(), step, loss, gang.total_steps, metric))
                self._heard = True
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
        """A running job's processes: all well, done, failed, or lost?"""
        verdict = gang.verdict(self.now(), self._pilot.patience.grace)
        if verdict.life is Life.DONE and not gang.alive():
            self._land(row, gang, Landing(State.FINISHED, None))
        elif verdict.life is Life.DONE:
            self._bring_down(row, gang, Landing(State.FINISHED, None))
        elif verdict.life in (Life.FAILED, Life.LOST):
            self._bring_down(row, gang, self._after(gang, verdict))

    def _bring_down(self, row: int, gang: Gang, landing: Landing) -> None:
        """What is left of the gang goes; policies leave the job alone meanwhile."""
        self.board.begin(row, State.STOPPING, None, self.now(), self.now() + self._pilot.patience.stop)
        self._flights[gang.job.id] = self._pilot.take_down(gang, landing)
        self._happened = True

    def _after(self, gang: Gang, verdict: Verdict) -> Landing:
        """What becomes of a gang that has failed, or was lost."""
        if verdict.life is Life.FAILED:
            return Landing(State.FAILED, None, verdict.why)
        gang.losses = gang.losses.another(self.now(), gang.furthest, self._limits)
        if gang.losses.too_many(self._limits):
            return Landing(State.FAILED, None, gang.losses.sentence(verdict.why))
        return Landing(State.WAITING, None, f"{verdict.why}; it starts again")

    def _fly(self) -> None:
        for job_id in list(self._flights):
            try:
                next(self._flights[job_id])
            except StopIteration as ended:
                del self._flights[job_id]
                row = self.board.row(job_id)
                assert row is not None
                self._land(row, self._gangs[job_id], ended.value)

    def _land(self, row: int, gang: Gang, landing: Landing) -> None:
        if gang.broken is not None:
            landing, gang.broken = self._after(gang, gang.broken), None
        if landing.refused:
            landing = self._after_refusal(gang, landing)
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

    def _after_refusal(self, gang: Gang, landing: Landing) -> Landing:
        """A start that was refused is tried again after a pause that grows, and not without end."""
        gang.refusals += 1
        gang.start_at = self.now() + back_off_seconds(gang.refusals)
        if gang.refusals <= self._limits.refusals:
            return landing
        return Landing(State.FAILED, None, f"refused {gang.refusals} times in a row, last: {landing.why}")

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────

    def _may_begin(self, decision: Action) -> bool:
        """What a job has just refused is left for later, whatever the policy wishes."""
        gang, now = self._gangs.get(decision.job), self.now()
        if gang is None:
            return True
        then = ask_again_at(decision, gang.declined, gang.declined_at, now)
        if isinstance(decision, Start):
            then = max(then, gang.start_at)
        if then > now:
            self._wake = min(self._wake, then)
        return then <= now

    def _begin(self, decision: Action) -> None:
        row = self.board.row(decision.job)
        assert row is not None
        job, old = self.board.job(row), self.board.placement(row)
        gang = self._gangs.get(job.id) or self._new_gang(row)
        state, target = self.board.aim(row, decision)
        self.board.begin(row, state, target, self.now(), self.now() + self._pilot.patience.start)
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
        gang = Gang(self.board.job(row), table.shapes[int(table.get("shape", row))], self._grounds)
        gang.attempt = int(table.get("stops", row))
        self._gangs[gang.job.id] = gang
        return gang

    def cancel(self, job_id: JobId) -> None:
        """Its user withdrew it; no policy is asked."""
        row = self.board.row(job_id)
        if row is not None and self.board.state(row) is State.RUNNING:
            self._begin(Stop(job_id, Because.CANCELLED))

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def _ring(self) -> None:
        try:
            os.write(self._mouth, b"!")
        except OSError:
            return

    def _wait(self, now: float) -> None:
        until = min(self._wake, self._arrivals[0].submit if self._arrivals else math.inf)
        select.select([self._ear], [], [], max(0.0, min(BEAT_SECONDS, until - now)))
