"""Ctrl-C, and the signals that `docker stop` and a closed terminal send. The first asks, the second ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

SAME_SECONDS = 1.0
"""Signals this soon after the first are the same wish: a program around `headway run`, such as `timeout`, passes on
what the terminal sends to all, and people press Ctrl-C twice. Nobody loses work by that.
"""


class Signals:
    """Handles them from now on. The first calls `leave`, a later one raises KeyboardInterrupt, further ones nothing."""

    ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, leave: Callable[[], None]) -> None:
        self.count = 0
        self.said = False
        self._first = 0.0
        self._leave = leave
        self._terminals = [number for number in (1, 2) if os.isatty(number)]
        self._before = {
            number: signal.signal(number, self._handle)
            for number in self.ALL
            if signal.getsignal(number) is not signal.SIG_IGN
        }

    @property
    def leaving(self) -> bool:
        return self.count > 0

    def restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._forget_terminals()
        if self.count == 1 and time.monotonic() - self._first < SAME_SECONDS:
            return
        self.count += 1
        if self.count == 1:
            self._first = time.monotonic()
            self._leave()
        elif self.count == 2:
            raise KeyboardInterrupt

    def _forget_terminals(self) -> None:
        """Writing to a terminal that is gone would be an error, and would end the run before the jobs have saved."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in self._terminals:
            os.dup2(nowhere, number)
        os.close(nowhere)
