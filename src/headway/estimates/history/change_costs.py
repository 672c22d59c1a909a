"""How long jobs take to start and to stop on this cluster, as snapshots show it.

Example: a job of `bert` was started at 100 s and is up at 131 s, so a start took 31 s. The next ones took 29 s, 900 s
and 30 s, because one node had to fetch the image first. What is believed is 30 s: of the newest three the middle one
counts, so one that is far off changes nothing.

A stop takes from the decision until the job waits; a save is a part of it that nobody sees. Moves and changes of size
teach nothing: they are several things at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.core.job import JobId
from headway.core.jobs.row import JobRow
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.estimates.history.durations import newest

MEMORY = 20.0
"""After this many further changes, an old one weighs a third."""
ENOUGH = 2.5
"""What a change takes is told from this weight on: five changes were seen."""
LEAST = 0.01
"""Seconds. A change that takes no time counts as this long."""
MOST_MODELS = 1_000
ALL = ""
"""In place of a model: all jobs together."""

_WAITING, _STARTING, _RUNNING, _STOPPING = (
    int(state) for state in (State.WAITING, State.STARTING, State.RUNNING, State.STOPPING)
)


@dataclass(frozen=True, slots=True)
class UsualSeconds:
    """A running mean of logarithms. Of the newest three seconds the middle one counts."""

    weight: float = 0.0
    mean: float = 0.0
    last: tuple[float, ...] = ()
    """Logarithms of the newest two."""

    def add(self, seconds: float) -> UsualSeconds:
        fresh = math.log(max(LEAST, seconds))
        if len(self.last) < 2:
            return replace(self, last=(*self.last, fresh))
        weight = (1.0 - 1.0 / MEMORY) * self.weight + 1.0
        middle = sorted((*self.last, fresh))[1]
        return UsualSeconds(weight, self.mean + (middle - self.mean) / weight, (self.last[1], fresh))

    @property
    def seconds(self) -> float | None:
        """None where too few were seen."""
        return math.exp(self.mean) if self.weight >= ENOUGH else None


Usual = Mapping[str, UsualSeconds]
"""By model, and of all jobs together."""


@dataclass(frozen=True, slots=True)
class ChangeCosts:
    """What starts and stops have taken."""

    starts: Usual = field(default_factory=dict)
    stops: Usual = field(default_factory=dict)

    def started(self, model: str, seconds: float) -> ChangeCosts:
        return replace(self, starts=_added(self.starts, model, seconds))

    def stopped(self, model: str, seconds: float) -> ChangeCosts:
        return replace(self, stops=_added(self.stops, model, seconds))


@dataclass(frozen=True, slots=True)
class ChangeWatch:
    """What was last seen of jobs that are down or in between. What changes took is known when they are up or down."""

    states: Mapping[JobId, int] = field(default_factory=dict)
    """Of jobs that start or stop, and of those that wait after they were up."""
    at: float = -math.inf
    """The time of the last snapshot."""

    def fold(self, snapshot: Snapshot, costs: ChangeCosts, after: float) -> tuple[ChangeWatch, ChangeCosts]:
        """Changes that ended up to `after` have taught already."""
        states, jobs = self.states, snapshot.jobs
        for row in snapshot.changed:
            job, now = jobs.job(row), jobs.read(row)
            if jobs.row_of.get(job.id) != row:  # it lives on in another row
                continue
            before, took = self.states.get(job.id), now.since - now.touched
            if now.since > after and 0.0 <= took < math.inf:
                if now.state == _RUNNING and (before in (_WAITING, _STARTING) or self._first(now)):
                    costs = costs.started(job.model, took)
                elif now.state == _WAITING and (before == _STOPPING or (before is None and self._stopped(now))):
                    costs = costs.stopped(job.model, took)
            states = _noted(states, self.states, job.id, now)
        return ChangeWatch(states, snapshot.now), costs

    def _first(self, now: JobRow) -> bool:
        """Whether the job has come up for the first time since the last snapshot."""
        new = now.since > self.at or now.since == self.at == now.touched
        return new and now.first_start == now.since

    def _stopped(self, now: JobRow) -> bool:
        """Whether a job that was up has been stopped since the last snapshot. A job that was lost waits, too, but then
        the last decision about it is older.
        """
        return -math.inf < self.at <= now.touched and not math.isnan(now.first_start)


def _noted(states: Mapping[JobId, int], before: Mapping[JobId, int], job: JobId, now: JobRow) -> Mapping[JobId, int]:
    """With what is to be remembered of a job. `before` is left as it is."""
    was_up = not math.isnan(now.first_start)
    wanted = now.state if now.state in (_STARTING, _STOPPING) or (now.state == _WAITING and was_up) else None
    if states.get(job) == wanted:
        return states
    noted = dict(states) if states is before else states
    assert isinstance(noted, dict)
    if wanted is None:
        del noted[job]
    else:
        noted[job] = wanted
    return noted


def _added(usual: Usual, model: str, seconds: float) -> Usual:
    changed = {name: usual.get(name, UsualSeconds()).add(seconds) for name in dict.fromkeys((model, ALL))}
    return newest(usual, changed, MOST_MODELS)
