"""What the book believes of each job: how long it has left, and how fast it would be in another configuration.

A policy cannot tell where the belief comes from. Time left is kept in a form that changes only when something happens:
so many seconds were left at such a moment, and they burn down while the job trains. Everything is computed when first
asked for, and what was asked is remembered, because a log need keep no more than what a policy saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.core.node import BoolArray, FloatArray

Counts = tuple[int, ...]
"""Replicas per role, in the job's order."""
SpeedSource = Callable[[int, Counts], float]
"""Row and counts to speed, relative to the asked-for size."""


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Columns by row. `left` is not a number where nothing is known."""

    left: FloatArray
    """Seconds of training left at the present size (the asked-for size while it waits), as of `at`."""
    at: FloatArray
    burning: BoolArray


class Estimates:
    __slots__ = ("_beliefs", "_source", "_speed", "asked_speeds")

    def __init__(self, source: Callable[[], Beliefs] | None = None, speed: SpeedSource | None = None) -> None:
        self._source = source
        self._speed = speed
        self._beliefs: Beliefs | None = None
        self.asked_speeds: dict[tuple[int, Counts], float] = {}
        """By row and counts: what was asked of `speed` so far."""

    @property
    def known(self) -> bool:
        return self._source is not None

    @property
    def asked(self) -> bool:
        """Whether anybody has looked at the time left."""
        return self._beliefs is not None

    @property
    def beliefs(self) -> Beliefs:
        if self._beliefs is None:
            assert self._source is not None, "no estimates were asked for: choose --estimates"
            self._beliefs = self._source()
        return self._beliefs

    def left(self, now: float) -> FloatArray:
        """Seconds of training left by row, never below zero; not a number where nothing is known."""
        beliefs = self.beliefs
        left: FloatArray = np.maximum(beliefs.left - np.where(beliefs.burning, now - beliefs.at, 0.0), 0.0)
        return left

    def speed(self, row: int, counts: Counts) -> float:
        """How fast the job would train with so many replicas per role, relative to the asked-for size."""
        asked = (row, counts)
        known = self.asked_speeds.get(asked)
        if known is None:
            assert self._speed is not None, "no estimates were asked for: choose --estimates"
            known = self.asked_speeds[asked] = float(self._speed(row, counts))
        return known
