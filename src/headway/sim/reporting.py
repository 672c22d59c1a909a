"""Progress reports of running jobs: step and loss, with noise that depends on the seed."""

from __future__ import annotations

import numpy as np

from headway.core.board import Board
from headway.core.job import Job
from headway.core.node import FloatArray
from headway.core.snapshot import Sample
from headway.core.states import TRAINING
from headway.estimates.models.profiles import Curve
from headway.sim.faults import chance
from headway.sim.work import Work
from headway.sim.world import World

_TRAINING = tuple(sorted(int(state) for state in TRAINING))
"""The numbers of these states are consecutive."""
_PLAIN = Curve()


class Reporter:
    def __init__(self, world: World, board: Board, work: Work) -> None:
        self._world = world
        self._board = board
        self._work = work
        self._last: FloatArray = np.full(64, -np.inf)
        """By row: when it last reported."""

    def report(self, now: float) -> None:
        """Adds a report of each training job that has a new one to the next snapshot."""
        board, work, reports = self._board, self._work, self._world.reports
        state = board.table.column("state")
        if len(self._last) < len(state):
            self._last = np.concatenate([self._last, np.full(len(state), -np.inf)])
        training = (state >= _TRAINING[0]) & (state <= _TRAINING[-1])
        if reports.seconds or reports.growth:
            gone = now - self._last[: len(state)]
            training &= gone >= reports.seconds
            if reports.growth:
                trained = board.table.column("attained") + now - board.table.column("since")
                training &= gone >= reports.growth * trained
        for row in training.nonzero()[0].tolist():
            job, total = board.job(row), work.total.item(row)
            steps = self._world.steps(job)
            if steps is None or total <= 0:
                continue
            told = self._world.tells(job, self._sample(job, steps, 1.0 - work.left_at(row, now) / total, now))
            if told is not None:
                board.sampled(told)
            self._last[row] = now

    def renumber(self, kept: list[int]) -> None:
        rows = [row for row in kept if row < len(self._last)]
        self._last[: len(rows)] = self._last[rows]
        self._last[len(rows) :] = -np.inf

    def _sample(self, job: Job, steps: int, share: float, now: float) -> Sample:
        """The report at this share of the work. A job that stops at a target does not know its total steps."""
        if job.target is None:
            step = int(steps * share)
            return Sample(job.id, now, step, self._loss(job, share, step), steps)
        share *= self._world.reach(job)
        step = int(steps * share)
        loss = self._loss(job, share, step)
        return Sample(job.id, now, step, loss, None, loss if job.target.metric == "loss" else None)

    def _loss(self, job: Job, share: float, step: int) -> float:
        world = self._world
        loss = (world.curve(job) or _PLAIN)(share)
        if world.reports.noise:
            loss *= 1.0 + chance(world.seed, "loss", job.id, step).gauss(0.0, world.reports.noise)
        return loss
