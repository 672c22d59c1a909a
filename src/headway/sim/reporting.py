"""What running jobs tell of themselves: the step they are at and their loss, with noise that the seed decides."""

from __future__ import annotations

import numpy as np

from headway.core.board import Board
from headway.core.job import Job
from headway.core.node import FloatArray
from headway.core.snapshot import Sample
from headway.core.states import TRAINING
from headway.predict.profiles import Curve
from headway.sim.faults import chance
from headway.sim.speed import Speed
from headway.sim.work import Work
from headway.sim.world import World

_TRAINING = tuple(int(state) for state in TRAINING)
_PLAIN = Curve()


class Reporter:
    def __init__(self, world: World, board: Board, work: Work) -> None:
        self._world = world
        self._board = board
        self._work = work
        self._last: FloatArray = np.full(64, -np.inf)
        """By row: when it last reported."""

    def report(self, now: float) -> None:
        board, work, every = self._board, self._work, self._world.reports.seconds
        state = board.table.column("state")
        if len(self._last) < len(state):
            self._last = np.concatenate([self._last, np.full(len(state), -np.inf)])
        training = np.isin(state, _TRAINING)
        if every:
            training &= now - self._last[: len(state)] >= every
        for row in np.flatnonzero(training).tolist():
            job, total = board.job(row), work.total.item(row)
            if job.steps is None or total <= 0:
                continue
            share = 1.0 - work.left_at(row, now) / total
            step = int(job.steps * share)
            board.sampled(Sample(job.id, now, step, self._loss(job, share, step), job.steps))
            self._last[row] = now

    def renumber(self, kept: list[int]) -> None:
        rows = [row for row in kept if row < len(self._last)]
        self._last[: len(rows)] = self._last[rows]
        self._last[len(rows) :] = -np.inf

    def _loss(self, job: Job, share: float, step: int) -> float:
        world = self._world
        curve = _PLAIN
        if isinstance(world.speed, Speed) and job.model in world.speed.profiles:
            curve = world.speed.profiles[job.model].curve
        loss = curve(share)
        if world.reports.noise:
            loss *= 1.0 + chance(world.seed, "loss", job.id, step).gauss(0.0, world.reports.noise)
        return loss
