"""Who may write: the holder of one Lease, until a local deadline. Past it, nothing leaves.

Example: this process was frozen for a minute, and another one has taken the Lease meanwhile. When it thaws, the
deadline is over: what it had decided stays inside, and the first answer to a renewal tells it to end.

The epoch grows with each holder. It is in every status and on every pod that the holder writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

REQUEST_SECONDS = 4.0
"""What is sent may arrive this much later."""


@dataclass(slots=True)
class Fence:
    epoch: int = 0
    deadline: float = math.inf
    """By the monotonic clock."""
    clock: Callable[[], float] = time.monotonic

    def is_open(self) -> bool:
        """Whether a write may leave now."""
        return self.clock() < self.deadline - REQUEST_SECONDS

    def renew(self, asked: float, seconds: float) -> None:
        """The Lease was renewed for so many seconds by a request that left at `asked`, by the fence's clock."""
        self.deadline = asked + seconds

    def close(self) -> None:
        self.deadline = -math.inf
