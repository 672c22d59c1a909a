"""When a job is looked at again. Times are on the cluster's clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.kube.api.errors import ApiError

SHORTEST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 15.0


@dataclass(slots=True)
class Attention:
    """When this job is reconciled again. Times are on the cluster's clock."""

    dirty: bool = True
    """Something changed since the last reconciliation."""
    busy: bool = False
    """The API worker has work for this job; nothing more is sent until that is done."""
    wake: float = math.inf
    not_before: float = -math.inf
    """When to try again after the API server could not be reached."""
    pause: float = SHORTEST_PAUSE_SECONDS
    troubled: bool = False
    """The failure was logged; it is not logged again until a request succeeds."""

    taken: float = -math.inf
    """When it was reconciled last."""

    def due(self, now: float) -> bool:
        return (self.dirty or now >= self.wake) and self.free(now)

    def free(self, now: float) -> bool:
        return not self.busy and now >= self.not_before

    def next(self) -> float:
        """When to reconcile, as far as is known now; infinite while the worker is busy with the job."""
        return math.inf if self.busy else max(-math.inf if self.dirty else self.wake, self.not_before)

    def put_off(self, error: ApiError, now: float) -> None:
        """The server did not answer: try again after a pause that doubles each time."""
        self.troubled, self.dirty = True, True
        self.not_before = now + max(self.pause, error.retry_after_seconds)
        self.pause = min(2 * self.pause, LONGEST_PAUSE_SECONDS)

    def recovered(self) -> None:
        self.pause, self.troubled = SHORTEST_PAUSE_SECONDS, False
