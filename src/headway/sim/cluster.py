"""The simulated cluster. All finishes and arrivals of one instant come first, then one snapshot.

Work is counted in seconds at the asked-for size; a job's rate is its speed relative to that. Work and rate are the
truth; a policy sees of them only what the book tells.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from headway.core.board import Board
from headway.core.errors import UserError
from headway.core.estimates import Beliefs
from headway.core.job import Job, JobId
from headway.core.node import FloatArray, Nodes
from headway.core.plan import Because, Decision, Move, Plan, Reserve, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample, Snapshot
from headway.core.states import TRAINING, State
from headway.sim.speed import Speed, SpeedOf

MOST_CYCLES_AT_ONE_INSTANT = 100_000


class SimulationError(UserError):
    """The simulation cannot go on; its message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that things take."""

    start: float = 0.0
    save: float = 0.0
    stop: float = 0.0
    scale: float = 0.0
    resize: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How the simulated world behaves, apart from the policy."""

    costs: Costs = Costs()
    speed: SpeedOf = Speed()
    work: Callable[[Job], float | None] = lambda job: job.seconds
    """True seconds of training at the asked-for size."""
    samples: bool = True
    """Whether running jobs report progress. Costs time for every running job at every event."""


class SimCluster:
    def __init__(self, nodes: Nodes, jobs: Iterable[Job], world: World | None = None) -> None:
        self.world = world or World()
        self.board = Board(nodes, self._compacted)
        self.now = 0.0
        self._arrivals = sorted(jobs, key=lambda job: job.submit)
        self._next_arrival = 0
        self._events: list[tuple[float, int, str, JobId, int]] = []
        self._sequence = 0
        self._left: FloatArray = np.zeros(64)
        self._rate: FloatArray = np.zeros(64)
        self._at: FloatArray = np.zeros(64)
        self._total: FloatArray = np.zeros(64)
        self._version: dict[JobId, int] = {}
        self._wake = math.inf
        self._again = False
        self._cycles_now = 0

    # ── the seam ────────────────────────────────────────────────────────────────────────────────────────

    def next_snapshot(self) -> Snapshot | None:
        if not self._again and not self._advance():
            return None
        self._again = False
        if self.world.samples:
            self._sample()
        return self.board.snapshot(self.now)

    def apply(self, plan: Plan) -> None:
        self.board.compact()
        self._wake = plan.until
        for decision in plan.decisions:
            self._begin(decision)

    def truth(self, snapshot: Snapshot) -> Beliefs:
        """What an oracle knows: true seconds left at the present rate, or at the asked-for size while waiting."""
        count = snapshot.jobs.count
        rate, training = self._rate[:count], snapshot.jobs.training()
        left = np.where(training & (rate > 0), self._left[:count] / np.where(rate > 0, rate, 1.0), self._left[:count])
        return Beliefs(left, self._at[:count].copy(), training)

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────

    def _advance(self) -> bool:
        """Jumps to the next instant at which something happens, and lets all of it happen."""
        while self._events and self._stale(self._events[0]):
            heapq.heappop(self._events)
        arrival = self._arrivals[self._next_arrival].submit if self._next_arrival < len(self._arrivals) else math.inf
        event = self._events[0][0] if self._events else math.inf
        instant = min(arrival, event, self._wake)
        if math.isinf(instant) or (math.isinf(min(arrival, event)) and not self.board.unfinished):
            return False
        self._cycles_now = self._cycles_now + 1 if instant == self.now else 0
        if self._cycles_now > MOST_CYCLES_AT_ONE_INSTANT:
            raise SimulationError(f"the policy decides for ever at second {self.now:g} without time going on")
        self.now = max(self.now, instant)
        if self._wake <= self.now:
            self._wake = math.inf
        while self._events and self._events[0][0] <= self.now:
            event_ = heapq.heappop(self._events)
            if not self._stale(event_):
                self._happen(event_[2], event_[3])
        while self._next_arrival < len(self._arrivals) and self._arrivals[self._next_arrival].submit <= self.now:
            self._arrive(self._arrivals[self._next_arrival])
            self._next_arrival += 1
        return True

    def _stale(self, event: tuple[float, int, str, JobId, int]) -> bool:
        return self._version.get(event[3]) != event[4]

    def _push(self, at: float, what: str, job: JobId) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (at, self._sequence, what, job, self._version[job]))

    def _arrive(self, job: Job) -> None:
        work = self.world.work(job)
        if work is None:
            raise SimulationError(f"job {job.id!r}: field seconds is needed to simulate it")
        row = self.board.add(job, self.now)
        if row == len(self._left):
            for name in ("_left", "_rate", "_at", "_total"):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(len(column))]))
        self._left[row] = self._total[row] = work
        self._rate[row], self._at[row] = 0.0, self.now
        self._version[job.id] = 0

    def _happen(self, what: str, job_id: JobId) -> None:
        row = self.board.row(job_id)
        assert row is not None
        if what == "finish":
            self._left[row] = 0.0
            self.board.settle(row, State.FINISHED, None, self.now)
            del self._version[job_id]
        else:
            self._land(row, what)

    # ── decisions ───────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, decision: Decision) -> None:
        if isinstance(decision, Reserve):
            return
        row = self.board.row(decision.job)
        assert row is not None
        state, towards = self.board.aim(row, decision)
        seconds = self._seconds(decision, row)
        if state in (State.MOVING, State.STOPPING):
            self._set_rate(row, 0.0)
            self.board.saved(row, self.board.trained_seconds(row, self.now))
        self.board.begin(row, state, towards, self.now, self.now + seconds)
        landing = f"stop:{decision.because}" if isinstance(decision, Stop) else "land"
        if seconds > 0:
            self._bump(decision.job, keep_finish=state in TRAINING)
            self._push(self.now + seconds, landing, decision.job)
        else:
            self._land(row, landing)

    def _seconds(self, decision: Decision, row: int) -> float:
        costs = self.world.costs
        match decision:
            case Start():
                return costs.start
            case Move():
                return costs.save + costs.stop + costs.start
            case Stop():
                return costs.save + costs.stop
            case Resize():
                return costs.resize
            case Scale(role=role, nodes=nodes):
                old = self.board.placement(row)
                assert old is not None
                return costs.scale if len(nodes) > len(old.nodes[self.board.role_number(row, role)]) else 0.0
        return 0.0

    def _land(self, row: int, how: str) -> None:
        flight = self.board.flight(row)
        assert flight is not None
        if how.startswith("stop:"):
            cancelled = how == f"stop:{Because.CANCELLED}"
            self.board.settle(row, State.CANCELLED if cancelled else State.WAITING, None, self.now)
            self._at[row] = self.now
            self._again = True
            return
        self.board.settle(row, State.RUNNING, flight.towards, self.now)
        assert flight.towards is not None
        self._set_rate(row, self.world.speed(self.board.job(row), flight.towards, self.board.nodes.kinds))

    def _set_rate(self, row: int, rate: float) -> None:
        """Books the work done so far, and foretells the end at the new rate."""
        self._left[row] = max(0.0, self._left[row] - self._rate[row] * (self.now - self._at[row]))
        self._at[row], self._rate[row] = self.now, rate
        job_id = self.board.job(row).id
        self._bump(job_id, keep_finish=False)
        if rate > 0:
            self._push(self.now + float(self._left[row]) / rate, "finish", job_id)

    def _bump(self, job_id: JobId, *, keep_finish: bool) -> None:
        """Events foretold for this job no longer hold, except its end where it trains on meanwhile."""
        if not keep_finish:
            self._version[job_id] += 1

    def _sample(self) -> None:
        jobs = self.board.table
        for row in np.flatnonzero(np.isin(jobs.column("state"), [int(state) for state in TRAINING])):
            job = self.board.job(int(row))
            if job.steps is None or self._total[row] <= 0:
                continue
            left = max(0.0, float(self._left[row] - self._rate[row] * (self.now - self._at[row])))
            share = 1.0 - left / float(self._total[row])
            step = int(job.steps * share)
            self.board.sampled(Sample(job.id, self.now, step, _loss(share), job.steps))

    def _compacted(self, kept: list[int]) -> None:
        for name in ("_left", "_rate", "_at", "_total"):
            column = getattr(self, name)
            column[: len(kept)] = column[kept]


def _loss(share: float) -> float:
    """A curve of the usual form, for jobs without a measured one."""
    return 1.0 / (1.0 + 9.0 * share) + 0.1
