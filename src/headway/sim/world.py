"""How the simulated world behaves, apart from the policy. Everything that is not asked for is off and costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from headway.core.errors import UserError
from headway.core.job import Job
from headway.core.placement import Placement
from headway.core.plan import Decision, Move, Resize, Scale, Start, Stop
from headway.estimates.models.profiles import Curve
from headway.sim.faults import NO_FAULTS, Faults
from headway.sim.sharing import NO_SHARING, Sharing
from headway.sim.speed import Speed, SpeedOf


class SimulationError(UserError):
    """The simulation cannot go on; its message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that things take. A move saves, stops and starts; a stop saves and stops."""

    start: float = 0.0
    save: float = 0.0
    stop: float = 0.0
    scale: float = 0.0
    """Until added replicas take part; the rest of the gang trains on meanwhile."""
    resize: float = 0.0

    def of(self, decision: Decision, now: Placement | None, job: Job) -> float:
        """What carrying out a decision takes. Giving up replicas takes no time; on another node they are new ones."""
        match decision:
            case Start():
                return self.start
            case Move():
                return self.save + self.stop + self.start
            case Stop():
                return self.save + self.stop
            case Resize():
                return self.resize
            case Scale(role=name, nodes=nodes) if now is not None:
                before = next(where for role, where in zip(job.roles, now.nodes, strict=True) if role.name == name)
                return self.scale if Counter(nodes) - Counter(before) else 0.0
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What running jobs tell of themselves."""

    seconds: float = 0.0
    """At most one report of a job in so many seconds; 0 means at every event, which costs time for every job."""
    growth: float = 0.0
    """And not before the seconds that it has trained have grown by this share: a long job has little new to tell."""
    noise: float = 0.0
    """Standard deviation of a reported loss, as a share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    costs: Costs = Costs()
    speed: SpeedOf = Speed()
    work: Callable[[Job], float | None] = lambda job: job.seconds
    """True seconds of training at the asked-for size."""
    samples: bool = True
    """Whether running jobs report progress."""
    reports: Reports = Reports()
    sharing: Sharing = NO_SHARING
    faults: Faults = NO_FAULTS
    checkpoint_seconds: float = 0.0
    """Jobs that can save do so after every so many seconds of training; 0 means only when they are told to."""
    seed: int = 0
    """Of everything that is left to chance. Same seed, same log, byte for byte."""

    def curve(self, job: Job) -> Curve | None:
        """How its loss falls, where its model has a profile."""
        profile = self.speed.profiles.get(job.model) if isinstance(self.speed, Speed) else None
        return None if profile is None else profile.curve

    def reach(self, job: Job) -> float:
        """The share of all its training after which it stops at its target: all of it, unless its curve says less."""
        target = job.target
        if target is None or target.higher or target.metric != "loss":
            return 1.0
        curve = self.curve(job)
        return 1.0 if curve is None else min(1.0, curve.share_to(target.value))
