"""Moments as times of day, as people say them: `15:10 (14:50-15:40)`, `Thu 09:20`, `14:05:12`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headway.core.job import JobId
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.estimates.history.change_costs import ChangeCosts
from headway.forecast.times import Eta, Forecast, Range

if TYPE_CHECKING:
    from headway.cli.machine.queue_status import JobStatus
    from headway.forecast.eta import Background
    from headway.forecast.present import Present

SOON = 600.0
"""Up to so many seconds from now, a time of day has seconds."""
FIRST_LOOK = 1.0
FEWEST_DRAWS = 5
"""Of fewer futures no range is told."""


@dataclass(frozen=True, slots=True)
class ClockTimes:
    """A forecast in times of day. `zero` is the time of day, in seconds since 1970, at second 0 of the run's clock."""

    forecast: Forecast
    zero: float

    @property
    def now(self) -> float:
        return self.forecast.now + self.zero

    def etas(self) -> Iterator[tuple[JobId, tuple[Range | None, Range | None]]]:
        """By job: when it starts and is done, in seconds since 1970; None where it is not foreseen."""
        for job, eta in self.forecast.jobs.items():
            yield job, (self._since_1970(eta.starts), self._since_1970(eta.done))

    def _since_1970(self, moment: Range | None) -> Range | None:
        if moment is None or math.isinf(moment.high):
            return None
        return Range(*(round(one + self.zero, 1) for one in moment))

    def between(self, moment: Range | None) -> str:
        """`14:05-14:20`; the middle alone where futures are too few for a range; empty where it is not foreseen."""
        if moment is None or math.isinf(moment.mid):
            return ""
        if self.forecast.draws < FEWEST_DRAWS:
            return self._at(moment.mid, moment.mid)
        low = self._at(moment.low, moment.high)
        if math.isinf(moment.high):
            return f"{low} or later"
        high = self._at(moment.high, moment.high, after=moment.low)
        return low if low == high else f"{low}-{high}"

    def about(self, moment: Range | None) -> str:
        """`15:10 (14:50-15:40)`."""
        between = self.between(moment)
        if moment is None or not between:
            return "not foreseen" if moment is not None else ""
        mid = self._at(moment.mid, moment.high)
        return mid if mid == between else f"{mid} ({between})"

    def sentence(self, eta: Eta) -> str:
        """`starts 14:05-14:20, done 15:10 (14:50-15:40)`."""
        if math.isinf(eta.done.mid):
            return "it is not foreseen when it is done: as things are, it may never be"
        starts = f"starts {self.between(eta.starts)}, " if eta.starts else ""
        return f"{starts}done {self.about(eta.done)}"

    def _at(self, moment: float, end: float, after: float | None = None) -> str:
        """One time of day. The day is told where it is not today, and in a range only once if both are on one day."""
        told, today = time.localtime(moment + self.zero), time.localtime(self.now)
        seconds = end < self.forecast.now + SOON
        text = time.strftime("%H:%M:%S" if seconds else "%H:%M", told)
        before = today if after is None else time.localtime(after + self.zero)
        if told.tm_yday == before.tm_yday and told.tm_year == before.tm_year:
            return text
        near = moment < self.forecast.now + 6 * 86_400.0
        return time.strftime("%a " if near else "%-d %b ", told) + text


def times_of(job: JobStatus, now: float) -> tuple[str, str]:
    """When it starts and when it is done, as foreseen; of a job that is over, when it ended."""
    clock = ClockTimes(Forecast(now, draws=FEWEST_DRAWS), 0.0)
    if job.is_over:
        return "", clock.between(Range(job.since, job.since, job.since)) if job.since else ""
    return clock.between(job.starts), clock.between(job.done)


class LooksAhead:
    """While a run goes on: when its jobs start and are done, as foreseen in the background. Virtual time is loaded at
    the first look, a second after the run began: short runs do not pay for it.
    """

    def __init__(
        self, policy: Callable[[], Policy], began: float, start: float = 2.0, save: float = 2.0,
        told: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`policy` makes another object than the one that decides. `began`: the time of day at second 0. `start`,
        `save`: seconds that these take. `told` is called, in another thread, when something has been foreseen.
        """
        self._policy, self._began, self._first = policy, began, time.monotonic() + FIRST_LOOK
        self._start, self._save, self._told = start, save, told
        self._background: Background | None = None
        self._present: Callable[[Snapshot], Present]
        self._newest: ClockTimes | None = None

    def look(self, snapshot: Snapshot) -> ClockTimes | None:
        """What was foreseen last. Call it after the log has the cycle: it keeps what was asked of the estimates."""
        if self._background is None and time.monotonic() >= self._first:
            from headway.cli.wiring import safe_policy
            from headway.forecast.eta import Background, usual_costs
            from headway.forecast.present import Present

            self._background = Background(self._policy, safe_policy, self._told)
            self._present = partial(Present.of, costs=usual_costs(ChangeCosts(), self._start, self._save))
        if self._background is not None:
            self._background.look(lambda: self._present(snapshot))
        return self.newest

    @property
    def due_in(self) -> float:
        """Seconds until it would look ahead again; infinite while it does."""
        if self._background is None:
            return max(0.0, self._first - time.monotonic())
        return self._background.due_in

    @property
    def newest(self) -> ClockTimes | None:
        """The same object until something else is foreseen."""
        found = None if self._background is None else self._background.newest
        if found is not None and (self._newest is None or found is not self._newest.forecast):
            self._newest = ClockTimes(found, self._began)
        return self._newest
