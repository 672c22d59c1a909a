"""The columns of the job table, defined once: what changes about a job (`JobRow`) and what never does (`FIXED`).

Names and numpy types of all columns follow from here. `JobRow` is what a cluster writes, one job at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from headway.core.job import Can, Job

Code = Annotated[int, np.uint8]
Count = Annotated[int, np.int32]
Seconds = Annotated[float, np.float64]


@dataclass(slots=True, eq=False)
class JobRow:
    """What changes about one job, as plain numbers."""

    state: Code
    """The number of its `State`."""
    since: Seconds
    """When the job entered its state."""
    attained: Seconds = 0.0
    """Seconds trained up to `since`."""
    service: Seconds = 0.0
    """Replica-seconds trained up to `since`."""
    size: Count = 0
    """Replicas that it holds now; 0 while it waits."""
    touched: Seconds = -np.inf
    """When the last decision about it was begun; minus infinity before the first."""
    first_start: Seconds = np.nan
    """When it was first up; NaN before."""
    saved: Seconds = 0.0
    """Seconds trained at its last acknowledged checkpoint."""
    stops: Count = 0
    """How often it was stopped, moved or interrupted after having been up."""

    def copy(self) -> JobRow:
        """Written out, because every change of a row copies it first, and this is the fastest way."""
        other = _new(JobRow)
        other.state = self.state
        other.since = self.since
        other.attained = self.attained
        other.service = self.service
        other.size = self.size
        other.touched = self.touched
        other.first_start = self.first_start
        other.saved = self.saved
        other.stops = self.stops
        return other


_new = object.__new__
_HINTS = {name: get_args(hint) for name, hint in get_type_hints(JobRow, include_extras=True).items()}
MUTABLE: Mapping[str, Any] = {field.name: _HINTS[field.name][1] for field in fields(JobRow)}
"""Numpy type of each column that changes, by name."""
PLAIN: Mapping[str, type[int | float]] = {name: _HINTS[name][0] for name in MUTABLE}
"""Python type of each field of a row, by name."""


class Numbers(NamedTuple):
    """Names as numbers, in order of arrival."""

    users: dict[str, int]
    queues: dict[str, int]


class Fixed(NamedTuple):
    """A column that never changes, read off the job."""

    dtype: Any
    of: Callable[[Job, Numbers], float]


def _can(job: Job, _: Numbers) -> int:
    """What may be done to the job; without checkpoints it is neither moved nor stopped."""
    return int(job.can) if job.checkpoints else int(job.can) & ~int(Can.MOVE | Can.STOP)


FIXED: Mapping[str, Fixed] = {
    "submit": Fixed(np.float64, lambda job, _: float(job.submit)),
    "width": Fixed(np.int32, lambda job, _: job.replicas),
    "priority": Fixed(np.int32, lambda job, _: job.priority),
    "user": Fixed(np.int32, lambda job, numbers: numbers.users[job.user]),
    "queue": Fixed(np.int32, lambda job, numbers: numbers.queues[job.queue]),
    "deadline": Fixed(np.float64, lambda job, _: np.inf if job.deadline is None else float(job.deadline)),
    "declared": Fixed(np.float64, lambda job, _: np.nan if job.seconds is None else float(job.seconds)),
    "can": Fixed(np.uint8, _can),
}
WRITE_ONCE: Mapping[str, Any] = {name: one.dtype for name, one in FIXED.items()} | {
    "shape": np.int32,
    "serial": np.int64,
}
"""Numpy type of each column that never changes. The table itself numbers shapes and arrivals."""
