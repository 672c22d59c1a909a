"""Ports of this machine for the replicas of a run: no two that are in use at the same time are the same."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Iterable

FIRST, LAST = 15_000, 32_000
"""Below the ports that the kernel gives to outgoing connections: those may be gone before a replica listens."""


class FreePorts:
    """Hands out ports on which nobody listens. Two runs on one machine begin at different ones."""

    def __init__(self) -> None:
        self._next = random.randrange(FIRST, LAST)  # noqa: S311  no secret
        self._taken: set[int] = set()

    def take(self) -> int:
        """A port that nobody has. Raises OSError if there is none."""
        for _ in range(LAST - FIRST):
            port, self._next = self._next, self._next + 1 if self._next + 1 < LAST else FIRST
            if port not in self._taken and _is_free(port):
                self._taken.add(port)
                return port
        raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: every port from {FIRST} to {LAST}")

    def give_back(self, ports: Iterable[int]) -> None:
        self._taken.difference_update(ports)


def _is_free(port: int) -> bool:
    """Whether a server may listen there, on any address of this machine."""
    try:
        with socket.create_server(("", port)):
            return True
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return False
