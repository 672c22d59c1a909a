"""Watches a trained policy that runs live, and says in every snapshot how it stands.

It begins in shadow: headway decides, the trained policy is asked and timed. When a hundred jobs have finished, the
recent log is replayed in virtual time under both. Where the trained policy is not clearly worse, it decides from then
on. It is switched off when a later replay finds it clearly worse, or when it has spent its time. What it says is an
input of the cycle and is in the log, so that a replay of the log decides the same.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headway.compare.executors import begin_worker, end_at_once
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot, Standing
from headway.core.states import State
from headway.cycle.loop import Decided
from headway.policies.learned import Learned
from headway.trained.regret import LEAST_JOBS, Regret, regret_of

EVERY = 50
"""Finished jobs between two replays."""
SECONDS_PER_CYCLE = 0.002
"""What the trained policy may take in the mean."""
SPARE_SECONDS = 0.5
"""What it may take beyond that in all."""

Replay = Callable[[Path, Path], Regret]
NOT_YET = Standing("shadow", f"fewer than {LEAST_JOBS} jobs have finished since it is watched")


class YieldsSnapshots(Protocol):
    def next_snapshot(self) -> Snapshot | None: ...

    def apply(self, plan: Plan) -> None: ...


@dataclass(slots=True)
class TrainedGuard:
    """`log` is the log of the run, `file` that of the trained policy."""

    policy: Learned
    log: Path
    file: Path
    replay: Replay = regret_of
    pool: Executor | None = None
    """Where replays are made; None: in a process of its own, when it is first needed."""
    clock: Callable[[], float] = time.perf_counter
    standing: Standing = NOT_YET
    _finished: int = 0
    _next: int = LEAST_JOBS
    _spent: float = 0.0
    _cycles: int = 0
    _running: Future[Regret] | None = field(default=None)

    def watched(self, cluster: YieldsSnapshots) -> GuardedCluster:
        return GuardedCluster(cluster, self)

    def observe(self, decided: Decided) -> None:
        """After the log was written: times the trained policy, counts finished jobs, begins replays, takes results."""
        snapshot = decided.snapshot
        self._time(snapshot)
        jobs = snapshot.jobs
        self._finished += sum(jobs.state_of(row) is State.FINISHED for row in snapshot.changed)
        if self._running is None and self._finished >= self._next and self.standing.mode != "off":
            self._next = self._finished + EVERY
            self._running = self._pool().submit(self.replay, self.log, self.file)

    def take_results(self) -> None:
        """Looks whether a replay is done. Called before each cycle."""
        if self._running is None or not self._running.done():
            return
        done, self._running = self._running, None
        error = done.exception()
        if error is not None:
            why = " ".join(str(error).split())[:200]
            self.standing = Standing("off", f"its replay failed: {type(error).__name__}: {why}")
            return
        self._judge(done.result())

    def close(self) -> None:
        """A run that ends does not wait for a replay."""
        if self.pool is not None:
            end_at_once(self.pool)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _judge(self, found: Regret) -> None:
        if self.standing.mode == "off" or not found.enough:
            return
        mode = "off" if found.too_much else "on"
        self.standing = Standing(mode, f"replayed: {found.sentence()}")

    def _time(self, snapshot: Snapshot) -> None:
        if self.standing.mode == "off":
            return
        begun = self.clock()
        self.policy.proposed(snapshot)
        self._spent += self.clock() - begun
        self._cycles += 1
        if self._spent > SPARE_SECONDS + SECONDS_PER_CYCLE * self._cycles:
            told = f"it took {self._spent:.1f} s in {self._cycles} cycles, more than its time"
            self.standing = Standing("off", told)

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

    cluster: YieldsSnapshots
    guard: TrainedGuard

    def next_snapshot(self) -> Snapshot | None:
        snapshot = self.cluster.next_snapshot()
        if snapshot is None:
            return None
        self.guard.take_results()
        return snapshot.standing_as(self.guard.standing)

    def apply(self, plan: Plan) -> None:
        self.cluster.apply(plan)
