"""How the scheduler runs on a cluster: settings, read once on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.gang import GRACE_SECONDS, RestartLimits
from headway.core.job import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeTimeouts:
    """Seconds after which something is given up. Each is the longest that a job can be in that kind of change."""

    start: float = 300.0
    """For every pod of a gang to run; pulling a large image counts."""
    scale: float = 300.0
    resize: float = 60.0
    save: float = 60.0
    """For training to acknowledge a checkpoint."""
    grace: float = GRACE_SECONDS
    """For the other replicas to end once the job has succeeded."""
    lost_node: float = 60.0
    """For a node to come back before its pods count as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """What all pods of one cluster have in common."""

    template: Mapping[str, Any] = field(default_factory=dict)
    progress: str = ""
    """Where training reports to, as seen from a pod: `tcp:host:port`."""
    checkpoints: str = ""
    """A folder that every node sees, as mounted in pods; each job gets one of its own inside."""
    gpu: str = "nvidia.com/gpu"
    """What a GPU is called here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    began: float
    """Seconds since 1970 at which the cluster's clock showed zero."""
    pods: PodDefaults = field(default_factory=PodDefaults)
    timeouts: KubeTimeouts = field(default_factory=KubeTimeouts)
    limits: RestartLimits = field(default_factory=RestartLimits)
    progress_seconds: float = 60.0
    """Progress is written to a job's status at most this often."""
    serials: Mapping[JobId, int] = field(default_factory=dict)
    """Arrival numbers that jobs have in the log already, so that they keep them."""
    until_idle: bool = False
    """End once there was a job, none is unfinished, and none has come for a while."""
