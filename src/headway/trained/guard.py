"""Watches a trained policy that runs live, and says in every snapshot how it stands.

It begins in shadow: headway decides, the trained policy is asked and timed. When a hundred jobs have finished, the
recent log is replayed in virtual time under both. Where the trained policy is not clearly worse, it decides from then
on. It is switched off when a later replay finds it clearly worse, when it fails, or when it has spent its time. What it
says is an input of the cycle and is in the log, so that a replay of the log decides the same.

How many jobs have finished and what replays have found is kept beside the log, and the next start goes on with it.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from headway.beliefs.whole_file import read_whole, write_whole
from headway.compare.executors import begin_worker, end_at_once
from headway.core.cluster import Cluster
from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot, TrainedMode
from headway.core.states import State
from headway.cycle.loop import Decided
from headway.cycle.sound import PolicyError, raised
from headway.trained.regret import LEAST_JOBS, Regret

EVERY = 50
"""Finished jobs between two replays."""
SPARE_SECONDS = 0.5
"""What the policy may take in all, beyond its seconds per cycle."""
MOST_BYTES = 1 << 16

Clock = Callable[[], float]
Replay = Callable[[Path, int], Regret]
"""From the log and the number of jobs that have finished in all."""
NOT_YET = TrainedMode("shadow", f"fewer than {LEAST_JOBS} jobs have finished since it is watched")


class Watched(Protocol):
    """A policy that decides only where `Snapshot.standing` allows it."""

    @property
    def name(self) -> str:
        """Its file and the begin of the file's hash."""

    @property
    def seconds_per_cycle(self) -> float:
        """What it may take in the mean."""

    def took(self, snapshot: Snapshot, clock: Clock) -> float:
        """Seconds that it takes to decide this snapshot."""


class KeptFields(msgspec.Struct):
    """The file beside the log."""

    policy: str
    mode: str
    why: str
    finished: int
    next: int
    until: float


@dataclass(slots=True)
class TrainedGuard:
    """`log` is the log of the run."""

    policy: Watched
    log: Path
    replay: Replay
    pool: Executor | None = None
    """Where replays are made; None: in a process of its own, when it is first needed."""
    clock: Clock = time.perf_counter
    standing: TrainedMode = NOT_YET
    _found: TrainedMode = NOT_YET
    """What the last replay says; being slow or failing switches off until the next start only."""
    _finished: int = 0
    _next: int = LEAST_JOBS
    _asked: int = 0
    """How many had finished when the running replay began."""
    _since: float = -math.inf
    """Jobs that ended up to then were counted by an earlier run."""
    _written: tuple[TrainedMode, int] | None = None
    _spent: float = 0.0
    _cycles: int = 0
    _running: Future[Regret] | None = field(default=None)

    def go_on(self) -> TrainedGuard:
        """Takes over what an earlier run with the same log and the same policy found."""
        with suppress(UserError, msgspec.DecodeError):
            kept = msgspec.json.decode(read_whole(self._kept, MOST_BYTES, "the state of a guard"), type=KeptFields)
            if kept.policy == self.policy.name and kept.mode in ("shadow", "on", "off"):
                self.standing = self._found = TrainedMode(kept.mode, kept.why)
                self._finished, self._next, self._since = kept.finished, kept.next, kept.until
        return self

    def watched(self, cluster: Cluster) -> GuardedCluster:
        return GuardedCluster(cluster, self)

    def observe(self, decided: Decided) -> None:
        """After the log was written: times the trained policy, counts finished jobs, begins replays, takes results."""
        snapshot = decided.snapshot
        self._time(snapshot)
        self._count(snapshot)
        if self._running is None and self._finished >= self._next and self.standing.mode != "off":
            self._asked = self._finished
            self._running = self._pool().submit(self.replay, self.log, self._finished)

    def take_results(self) -> None:
        """Looks whether a replay is done. Called before each cycle."""
        if self._running is None or not self._running.done():
            return
        done, self._running, self._next = self._running, None, self._asked + EVERY
        error = done.exception()
        if error is not None:
            why = " ".join(str(error).split())[:200]
            self._switch_off(f"its replay failed: {type(error).__name__}: {why}")
            return
        self._judge(done.result())

    def close(self) -> None:
        """A run that ends does not wait for a replay."""
        if self.pool is not None:
            end_at_once(self.pool)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _kept(self) -> Path:
        return self.log.with_name(f"{self.log.name}.guard")

    def _judge(self, found: Regret) -> None:
        if self.standing.mode == "off" or not found.enough:
            return
        mode = "off" if found.too_much else "on"
        self.standing = self._found = TrainedMode(mode, f"replayed: {found.sentence()}")

    def _count(self, snapshot: Snapshot) -> None:
        """A start shows all jobs of the run before it once more; each counts once."""
        jobs = snapshot.jobs
        if snapshot.now < self._since:
            self._since = -math.inf  # the clock is a new one, because the log is gone
        self._finished += sum(
            jobs.state_of(row) is State.FINISHED and float(jobs.since[row]) > self._since for row in snapshot.changed
        )
        if (self._found, self._finished) != self._written:
            kept = KeptFields(self.policy.name, *self._found, self._finished, self._next, snapshot.now)
            with suppress(UserError):
                write_whole(self._kept, msgspec.json.encode(kept), private=True)
                self._written = self._found, self._finished

    def _time(self, snapshot: Snapshot) -> None:
        if self.standing.mode == "off":
            return
        self._cycles += 1
        try:
            self._spent += self.policy.took(snapshot, self.clock)
        except Exception as error:  # noqa: BLE001  a policy in shadow must not end the run
            failed = error if isinstance(error, PolicyError) else raised(self.policy.name, error)
            self._switch_off(f"it fails: {failed.why}")
            return
        if self._spent > SPARE_SECONDS + self.policy.seconds_per_cycle * self._cycles:
            self._switch_off(f"it took {self._spent:.1f} s in {self._cycles} cycles, more than its time")

    def _switch_off(self, why: str) -> None:
        self.standing = TrainedMode("off", why)

    def _pool(self) -> Executor:
        if self.pool is None:
            self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        return self.pool


def _begin() -> None:
    """The live scheduler comes first, and Ctrl-C is for it alone."""
    begin_worker()
    os.nice(10)


@dataclass(frozen=True, slots=True)
class GuardedCluster:
    """The cluster of the loop, with the standing in every snapshot."""

    cluster: Cluster
    guard: TrainedGuard

    def next_snapshot(self) -> Snapshot | None:
        snapshot = self.cluster.next_snapshot()
        if snapshot is None:
            return None
        self.guard.take_results()
        return snapshot.standing_as(self.guard.standing)

    def apply(self, plan: Plan) -> None:
        self.cluster.apply(plan)
