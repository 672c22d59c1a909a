"""Where a run on this machine keeps its files, and its time limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headway.core.gang import GRACE_SECONDS
from headway.core.restarts import RestartLimits
from headway.local.device_pool import Devices
from headway.local.limits import MOST_PROCESSES


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTimeouts:
    """Seconds after which a step of a decision is given up."""

    start: float = 60.0
    """For a replica to come up."""
    speak: float = 5.0
    """For a replica to say that it can save; some scripts say so only when their model is built."""
    save: float = 30.0
    """For all replicas that can save to answer a request to save."""
    stop: float = 20.0
    """For a replica that was told to stop; then it is killed."""
    grace: float = GRACE_SECONDS
    """For the other replicas to end once the job has succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    folder: Path
    """Holds the checkpoints and the output of the jobs."""
    began: float
    """Seconds since 1970 at which the run's clock showed zero; a run that goes on after a restart keeps it."""
    timeouts: LocalTimeouts = field(default_factory=LocalTimeouts)
    cgroups: bool = True
    """Use control groups where this user may; without them cpu is limited by affinity, memory not at all."""
    foreign_cores: frozenset[int] = frozenset()
    """Cores that other runs plan with: this one leaves them alone if there are enough others."""
    max_processes: int = MOST_PROCESSES
    """Processes and threads of one replica, where a control group can limit them."""
    stays: bool = False
    """It goes on when all jobs are over, and waits for others."""
    restart_limits: RestartLimits = field(default_factory=RestartLimits)
    devices: Devices = field(default_factory=Devices)
    """The GPUs of each node."""


def clock_zero(began: float, last: float, now: float) -> float:
    """Seconds since 1970 at which the clock of a run that goes on showed zero.

    `began` is what the run before wrote, `last` what its clock last showed. If the wall clock was set back since, the
    run's clock goes on from `last`.
    """
    return min(began, now - last)
