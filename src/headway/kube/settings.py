"""How a cluster is run: settings, read once on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.job import JobId
from headway.kube.job.pods import PodDefaults
from headway.kube.reconcile.model import KubeTimeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """How a cluster is run."""

    began: float
    """Seconds since 1970 at which the cluster's clock showed zero."""
    making: PodDefaults = field(default_factory=PodDefaults)
    patience: KubeTimeouts = field(default_factory=KubeTimeouts)
    progress_seconds: float = 60.0
    """Progress is written to a job's status at most this often."""
    serials: Mapping[JobId, int] = field(default_factory=dict)
    """Arrival numbers that jobs have in the log already, so that they keep them."""
    until_idle: bool = False
    """End once there was a job, none is unfinished, and none has come for a while."""
