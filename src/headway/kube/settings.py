"""Settings of the scheduler on Kubernetes, read once from the command line."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.core.gang import GRACE_SECONDS
from headway.core.job import JobId
from headway.core.queue_rules import QueueRule
from headway.core.restarts import RestartLimits
from headway.core.snapshot import Snapshot
from headway.kube.clock import Clock, WallClock
from headway.kube.intake.template_rules import TemplateRules
from headway.kube.pods.checkpoints import CheckpointVolume
from headway.kube.pods.marks import PodMarks
from headway.rendezvous import MASTER_PORT


class Measure(enum.StrEnum):
    """By what it is measured how much cpu and memory jobs really use."""

    METRICS = "metrics"
    """The metrics API, where the cluster has one: one request for all pods."""
    KUBELET = "kubelet"
    """The summary of each kubelet: one request for each node, through the API server."""
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeTimeouts:
    """Seconds after which a change is given up: the longest time that a job can be in such a change."""

    start: float = 300.0
    """Until every pod of a gang runs, including the time to pull a large image."""
    scale: float = 300.0
    resize: float = 60.0
    save: float = 60.0
    """Until training acknowledges a checkpoint."""
    grace: float = GRACE_SECONDS
    """Until the other replicas are ended after the job has succeeded."""
    lost_node: float = 60.0
    """Until the pods of a silent node count as lost."""
    silent_node: float = 55.0
    """Until the API server notices that a node is silent; a failure may follow from it that long."""
    dry_runs: float = 0.1
    """Until decisions begin at the start, though not all jobs are read or their dry runs answered. These come later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """What all pods of one cluster have in common."""

    template: Mapping[str, Any] = field(default_factory=dict)
    progress: str = ""
    """The address to which training reports, as pods reach it: `tls:host:port`."""
    authority: str = ""
    """The certificate authority that pods trust when they report, as PEM. With it, each pod gets a token to show."""
    checkpoints: str = ""
    """The folder, as mounted in pods on every node, in which each job has its own checkpoint folder."""
    volume: CheckpointVolume | None = None
    """The volume that holds this folder; None where the cluster's template mounts none there."""
    rules: TemplateRules = field(default_factory=TemplateRules)
    """What a job's own template may set."""
    master_port: int = MASTER_PORT
    """Where the replica of rank 0 listens for the others: every pod has an address of its own."""
    gpu: str = "nvidia.com/gpu"
    """The resource name of a GPU, where the node has none that we know."""
    gpus: Mapping[str, str] = field(default_factory=dict)
    """By node: the resource name of its GPUs. One cluster may have several vendors'."""


@dataclass(slots=True, kw_only=True)
class ClaimSettings:
    """What submitters may claim. The only settings that change while it runs: all who have them see that."""

    queues: tuple[QueueRule, ...] = ()
    """What each queue allows. None: a job may name any queue and have any priority and deadline."""
    users_since: float | None = None
    """The Unix time since when the cluster records who submits; None where it does not: then users are namespaces."""
    limits: RestartLimits = field(default_factory=RestartLimits)
    """How often jobs start again, and how much of it a job may ask for."""


QuotaQuestion = Callable[[Snapshot], Callable[[int], str]]
"""Of a snapshot and then of the row of a job: why its queue may not hold it, whatever nodes there are; or nothing."""


def no_quota(_snapshot: Snapshot) -> Callable[[int], str]:
    return lambda _row: ""


Explain = Callable[[Snapshot, int], Sequence[tuple[str, str]]]
"""Of a snapshot and the row of a job: what the policy says about it, as topics and sentences."""


def no_explanation(_snapshot: Snapshot, _row: int) -> Sequence[tuple[str, str]]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    began: float
    """The Unix time at which the cluster's clock was zero."""
    clock: Clock = field(default_factory=WallClock)
    beside: bool = False
    """It gives turns to gated pods, which the native scheduler binds."""
    namespace: str = ""
    """Whose pods that name Headway as their scheduler are bound; empty: those of all."""
    pods: PodDefaults = field(default_factory=PodDefaults)
    marks: PodMarks = field(default_factory=lambda: PodMarks(secrets.token_bytes(32)))
    """How it knows its own pods again; the same at the next start only if the key is kept."""
    timeouts: KubeTimeouts = field(default_factory=KubeTimeouts)
    claims: ClaimSettings = field(default_factory=ClaimSettings)
    progress_seconds: float = 60.0
    """Min seconds between two writes of progress to a job's status."""
    serials: Mapping[JobId, int] = field(default_factory=dict)
    """The arrival numbers that jobs already have in the log; they keep them."""
    measure: Measure = Measure.OFF
    demand_gangs: int = 0
    """Gangs that lack nodes and are shown to autoscalers by pending pods."""
    quotas: QuotaQuestion = no_quota
    explain: Explain = no_explanation
    until_idle: bool = False
    """End when there was a job, all jobs are over, and no new one has come for a while."""
