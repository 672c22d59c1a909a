"""The truth that policies estimate: how much work each job has left, its rate, and what it has saved.

Work is counted in seconds at the requested size; a job's rate is its speed relative to that size. Columns follow the
board's rows. The work done at one rate is booked when the rate changes.
"""

from __future__ import annotations

import numpy as np

from headway.core.estimates import Beliefs
from headway.core.node import FloatArray
from headway.core.snapshot import Snapshot

_COLUMNS = ("left", "rate", "at", "total", "saved", "trained", "kept", "every")


class Work:
    __slots__ = ("at", "every", "kept", "left", "plain", "rate", "saved", "total", "trained")

    def __init__(self) -> None:
        self.left: FloatArray = np.zeros(64)
        """Work left at the time `at`."""
        self.rate: FloatArray = np.zeros(64)
        self.at: FloatArray = np.zeros(64)
        """The time up to which work is booked."""
        self.total: FloatArray = np.zeros(64)
        self.saved: FloatArray = np.zeros(64)
        """Work left at the last checkpoint."""
        self.trained: FloatArray = np.zeros(64)
        """Seconds trained up to `at`, without lost ones."""
        self.kept: FloatArray = np.zeros(64)
        """Seconds trained at the last checkpoint."""
        self.every: FloatArray = np.zeros(64)
        """Seconds of training between a checkpoint, or a start, and the next one by time; 0: there are none."""
        self.plain = True
        """Whether every rate so far was 1."""

    def add(self, row: int, work: float, now: float, left: float | None = None, every: float = 0.0) -> None:
        if row == len(self.left):
            for name in _COLUMNS:
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(len(column))]))
        self.total[row] = work
        self.left[row] = self.saved[row] = work if left is None else left
        self.rate[row] = self.trained[row] = self.kept[row] = 0.0
        self.at[row], self.every[row] = now, every

    def left_at(self, row: int, now: float) -> float:
        left: float = self.left.item(row) - self.rate.item(row) * (now - self.at.item(row))
        return max(0.0, left)

    def truth(self, snapshot: Snapshot) -> Beliefs:
        """True seconds left at the present rate; at the requested size for jobs that wait."""
        count = snapshot.jobs.count
        left, at, training = self.left[:count].copy(), self.at[:count].copy(), snapshot.jobs.training()
        if self.plain:
            return Beliefs(left, at, training)
        rows = training.nonzero()[0]
        rate = self.rate[rows]
        rows, rate = rows[rate > 0], rate[rate > 0]
        left[rows] /= rate
        burning = np.zeros(count, np.bool_)
        burning[rows] = True
        return Beliefs(left, at, burning)

    def set_rate(self, row: int, rate: float, now: float) -> float:
        """Books the work done so far and sets a new rate; returns the work left."""
        before, left = self.rate.item(row), self.left.item(row)
        if before > 0:
            seconds = now - self.at.item(row)
            after = self.trained.item(row) + seconds
            if every := self.every.item(row):
                self._checkpoint(row, after, every)
            self.trained[row] = after
            left = self.left[row] = max(0.0, left - before * seconds)
        self.at[row], self.rate[row] = now, rate
        return left

    def save(self, row: int) -> None:
        """Saves a checkpoint of all work up to `at`."""
        self.saved[row], self.kept[row] = self.left[row], self.trained[row]

    def lose(self, row: int) -> float:
        """Discards the work since the last checkpoint; returns the lost seconds of training."""
        seconds: float = self.trained.item(row) - self.kept.item(row)
        self.left[row], self.trained[row] = self.saved[row], self.kept[row]
        return seconds

    def renumber(self, kept: list[int]) -> None:
        for name in _COLUMNS:
            column = getattr(self, name)
            column[: len(kept)] = column[kept]

    def _checkpoint(self, row: int, after: float, every: float) -> None:
        """Books the last periodic checkpoint since the last booking, if there was one: `every` counts from the last."""
        before, kept = self.trained.item(row), self.kept.item(row)
        last = kept + (after - kept) // every * every
        if last > kept:
            self.saved[row] = self.left_at(row, self.at.item(row) + last - before)
            self.kept[row] = last
