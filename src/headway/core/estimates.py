"""What the book believes of each job's remaining time. A policy cannot tell where the belief comes from.

Kept in a form that changes only when something happens: so many seconds were left at such a moment, and they burn
down while the job trains. The seconds left now follow from the snapshot's own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.core.node import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Columns by row. `left` is not a number where nothing is known."""

    left: FloatArray
    """Seconds of training left at the present size (the asked-for size while it waits), as of `at`."""
    at: FloatArray
    burning: BoolArray


class Estimates:
    """Beliefs, computed when first asked for: most policies ask for few of them, `fifo` for none."""

    __slots__ = ("_beliefs", "_source")

    def __init__(self, source: Callable[[], Beliefs] | None = None) -> None:
        self._source = source
        self._beliefs: Beliefs | None = None

    @property
    def known(self) -> bool:
        return self._source is not None

    @property
    def asked(self) -> bool:
        """Whether anybody has looked: what nobody saw need not be kept."""
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
