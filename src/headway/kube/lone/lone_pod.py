"""One pod that somebody else made and that names Headway as its scheduler, as a job of one replica.

Nothing may be done to it but to start it: it is not resized, moved or stopped, and never deleted. Its user is its
namespace. Its queue is its label `headway.dev/queue`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.core.board import Board
from headway.core.job import Can, Job, JobId, Role
from headway.core.placement import Placement
from headway.core.quantity import PODS
from headway.core.queue_rules import ClaimRefused, QueueClaim, allowed_queue, held_to
from headway.core.states import State
from headway.core.text import clean
from headway.kube.api.objects import GROUP, SCHEDULER, Meta, Pod, unix
from headway.kube.attention import Attention
from headway.kube.job.pod_marks import owner_uid
from headway.kube.job.spec import job_id
from headway.kube.pod.conditions import condition_reason
from headway.kube.pod.constraints import BoundClaim, Demands, Unplaceable, demands_of
from headway.kube.pod.neighbours import guest_of
from headway.kube.pod.resources import OVER_PHASES, held_by
from headway.kube.pod.seat_pause import SeatPause
from headway.kube.pod.seating import Seat
from headway.kube.pod.standin import role_for
from headway.kube.settings import KubeSettings

ROLE = "pod"
QUEUE = f"{GROUP}/queue"
"""Label on a pod: its queue."""


def is_lone(pod: Pod, namespace: str) -> bool:
    """Whether Headway is to find a node for it, or has done so. `namespace`: empty for all."""
    if pod.spec.schedulerName != SCHEDULER or owner_uid(pod) or pod.status.phase in OVER_PHASES:
        return False
    gated = pod.spec.schedulingGates and not pod.spec.nodeName
    return not gated and (not namespace or pod.metadata.namespace == namespace)


@dataclass(slots=True, eq=False)
class LonePod:
    meta: Meta
    job: Job
    board: Board
    seats: Mapping[str, Seat]
    held: Mapping[str, int]
    """What it held when it became a job; what it holds beyond that later is counted as foreign."""
    attention: Attention = field(default_factory=Attention)
    node: str = ""
    """Its node, planned or real."""
    bound: bool = False
    seen_bound: bool = False
    """The watch has shown its node, too. What the watch shows may be older than the answer to a binding."""
    pause: SeatPause = field(default_factory=SeatPause)
    explained_at: float = -math.inf
    looked_at: float = -math.inf
    said: tuple[str, str] = ("", "")
    """The reason why it waits, and the sentence."""
    why: tuple[str, str] = ("", "")
    """Why it waits: the reason of its condition, and the sentence."""
    told: tuple[str, str] = ("", "")
    """What its condition says."""

    @property
    def row(self) -> int:
        row = self.board.row(self.job.id)
        assert row is not None, f"{self.job.id} is not on the board"
        return row

    @property
    def state(self) -> State:
        return State.WAITING if self.pause.resting else self.board.state(self.row)

    @property
    def waits(self) -> bool:
        return self.state is State.WAITING

    def explain(self, reason: str, message: str, now: float) -> None:
        """Sets why it waits. The next step writes it to the pod's condition."""
        self.said, self.explained_at = (reason, message), now
        self.why = condition_reason(reason), message

    def on(self, node: str) -> Placement | None:
        """Its placement there; None if the board does not know the node."""
        where = self.board.nodes.index.get(node)
        return None if where is None else Placement(((where,),))


def lone_job(pod: Pod, claims: Mapping[str, BoundClaim], settings: KubeSettings) -> tuple[Job, Seat]:
    """The pod as a job. Raises `Unplaceable`, in a sentence, for what Headway cannot honour or does not allow."""
    meta, bound, rules = pod.metadata, bool(pod.spec.nodeName), settings.claims.queues
    demands = Demands() if bound else demands_of(pod.spec, claims)
    held = held_by(pod)
    request = tuple(sorted((kind, amount) for kind, amount in held.items() if kind != PODS))
    job = Job(
        id=JobId(f"{job_id(meta.namespace, 'pod')}:{meta.name}"), user=meta.namespace,
        roles=(role_for(Role(name=ROLE, request=request), held, demands),),
        queue=clean(meta.labels.get(QUEUE, "")), submit=unix(meta.creationTimestamp) - settings.began,
        can=Can.NOTHING, checkpoints=False,
    )  # fmt: skip
    claim = QueueClaim(queue=job.queue, priority_class=str(pod.spec.priorityClassName), namespace=meta.namespace)
    try:
        job = replace(job, queue=allowed_queue(rules, claim))
    except ClaimRefused as refused:
        if not bound:
            raise Unplaceable(f"metadata.labels[{QUEUE}]: {refused}") from refused
        job = held_to(rules, job, meta.namespace)
    return job, Seat(guest_of(pod, placed=bound), demands)
