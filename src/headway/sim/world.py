"""Settings of the simulated world: costs, speed, reports, sharing, faults. All are off by default and cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headway.core.errors import UserError
from headway.core.gang import save_interval
from headway.core.job import Job
from headway.core.placement import Placement, beyond
from headway.core.plan import Decision, Move, Resize, Scale, Start, Stop
from headway.core.snapshot import Sample
from headway.estimates.models.profiles import Curve
from headway.sim.faults import NO_FAULTS, Faults
from headway.sim.sharing import NO_SHARING, Sharing
from headway.sim.speed import Speed, SpeedOf


class SimulationError(UserError):
    """The simulation cannot go on. The message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that each step takes. A move saves, stops and starts; a stop saves and stops."""

    start: float = 0.0
    save: float = 0.0
    stop: float = 0.0
    scale: float = 0.0
    """Until added replicas take part. The rest of the gang trains meanwhile."""
    resize: float = 0.0

    def of(self, decision: Decision, now: Placement | None, job: Job) -> float:
        """Seconds that a decision takes. Removing replicas takes no time; a replica on another node is a new one."""
        if isinstance(decision, Move) or (isinstance(decision, Scale) and job.saves_itself):
            return self.save + self.stop + self.start
        match decision:
            case Start():
                return self.start
            case Stop():
                return self.save + self.stop
            case Resize():
                return self.resize
            case Scale(role=name, nodes=nodes) if now is not None:
                before = next(where for role, where in zip(job.roles, now.nodes, strict=True) if role.name == name)
                return self.scale if beyond(nodes, before) else 0.0
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """How often running jobs report progress, and how exactly."""

    seconds: float = 0.0
    """Min seconds between two reports of a job; 0 means a report at every event, which is slow."""
    growth: float = 0.0
    """Min growth of the trained seconds, as a share, between two reports: long jobs report less often."""
    noise: float = 0.0
    """Standard deviation of a reported loss, as a share of the loss."""


Tells = Callable[[Job, Sample], Sample | None]
"""From what is true of a job to what its script reports; None: it reports nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    costs: Costs = Costs()
    speed: SpeedOf = Speed()
    work: Callable[[Job], float | None] = lambda job: job.seconds
    """True seconds of training at the requested size."""
    steps: Callable[[Job], int | None] = lambda job: job.steps
    """Training steps in all, which scripts report, whether or not the job's user says them."""
    samples: bool = True
    """Whether running jobs report progress."""
    reports: Reports = Reports()
    tells: Tells = lambda _job, sample: sample
    """What scripts report: the truth, unless a world has liars."""
    sharing: Sharing = NO_SHARING
    faults: Faults = NO_FAULTS
    checkpoint_seconds: float | None = 0.0
    """Seconds of training between checkpoints of jobs that can save; 0 means that they save on request only, None that
    they are asked as often as each job says."""
    seed: int = 0
    """Seed of all random numbers. The same seed gives the same log, byte for byte."""

    def save_every(self, job: Job) -> float:
        """Seconds of training between two checkpoints; 0: none but on request."""
        if not job.checkpoints:
            return 0.0
        if self.checkpoint_seconds is not None:
            return self.checkpoint_seconds
        interval = save_interval(job.save_every, self.costs.save)
        return interval if interval < math.inf else 0.0

    def trains(self, seconds: float, every: float) -> float:
        """The share of its time in which a job of this length trains: the rest goes into saves by time."""
        saves = max(0, math.ceil(seconds / every) - 1)
        return seconds / (seconds + saves * self.costs.save) if saves else 1.0

    def curve(self, job: Job) -> Curve | None:
        """The loss curve of the job's model; None if it has no profile."""
        profile = self.speed.profiles.get(job.model) if isinstance(self.speed, Speed) else None
        return None if profile is None else profile.curve

    def reach(self, job: Job) -> float:
        """The share of its training after which the job reaches its target; 1 unless its curve says less."""
        target = job.target
        if target is None or target.higher or target.metric != "loss":
            return 1.0
        curve = self.curve(job)
        return 1.0 if curve is None else min(1.0, curve.share_to(target.value))
