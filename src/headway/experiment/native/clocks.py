"""Clocks of an experiment: one stands until it is set, one runs so many times as fast as the machine's."""

from __future__ import annotations

import math
import time

from headway.kube.clock import LONGEST_WAIT_SECONDS, Messages

REST_SECONDS = 0.02


class SteppedClock:
    """Stands while the scheduler works, however long that takes, and tells when it has nothing left to do."""

    def __init__(self, began: float) -> None:
        self.began = self._now = began
        self.rests = 0
        """How often the scheduler had nothing to do before a later moment."""
        self.until = math.inf
        """That moment."""

    def now(self) -> float:
        return self._now

    def set(self, moment: float) -> None:
        self._now = max(self._now, moment)

    def wait(self, inbox: Messages, until: float) -> None:
        if until <= self._now:
            return
        self.until = until
        self.rests += 1
        inbox.wait(REST_SECONDS)


class FastClock:
    """Real latencies stay as long as they are, and so count so many times as much."""

    def __init__(self, began: float, times: float) -> None:
        self.began, self._times, self._started = began, times, time.monotonic()

    def now(self) -> float:
        return self.began + (time.monotonic() - self._started) * self._times

    def wait(self, inbox: Messages, until: float) -> None:
        inbox.wait(min(LONGEST_WAIT_SECONDS, max(0.0, (until - self.now()) / self._times)))

    def real(self, seconds: float) -> float:
        """So long is that by the machine's clock."""
        return seconds / self._times
