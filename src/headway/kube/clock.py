"""The clock of a scheduler: what time it is, and how it waits. Timeouts, pauses and reports all go by it.

Requests to the API server do not: how long a server may take to answer is a matter of the machine's own clock.
"""

from __future__ import annotations

import time
from typing import Protocol

LONGEST_WAIT_SECONDS = 5.0


class Messages(Protocol):
    def wait(self, seconds: float) -> bool:
        """Until there is a message, for so many seconds at most. Whether there is one."""


class Clock(Protocol):
    def now(self) -> float:
        """Unix time. It never goes back."""

    def wait(self, inbox: Messages, until: float) -> None:
        """Until there is a message, or this moment, or for a while. Nothing else is left to do before."""


class WallClock:
    """The machine's. What the machine corrects meanwhile does not count."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset

    def wait(self, inbox: Messages, until: float) -> None:
        inbox.wait(min(LONGEST_WAIT_SECONDS, max(0.0, until - self.now())))
