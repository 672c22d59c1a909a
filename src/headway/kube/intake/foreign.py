"""Pods that somebody else made, as a job: one alone, or a gang.

Two kinds: pods that name Headway as their scheduler, which it binds; and pods behind a gate, which the native scheduler
binds where Headway says. Nothing else may be done to either: they are not resized, moved or stopped. Their user is
their namespace. Their queue is their label `headway.dev/queue`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.core.job import Can, Job, JobId, Role
from headway.core.quantity import PODS
from headway.core.queue_rules import ClaimRefused, QueueClaim, allowed_queue, held_to
from headway.core.text import clean
from headway.kube.api.objects import GROUP, SCHEDULER, Meta, Pod, unix
from headway.kube.gangs.foreign import as_found, foreign_replica
from headway.kube.gangs.gang import FOREIGN, GATED, Gang
from headway.kube.gangs.intent import Intent
from headway.kube.intake.groups import GroupRef, role_of_pod
from headway.kube.intake.spec import job_id
from headway.kube.pods.constraints import BoundClaim, Demands, Unplaceable, demands_of
from headway.kube.pods.gate import is_ours
from headway.kube.pods.marks import owner_uid
from headway.kube.pods.placement_rules import facts_of
from headway.kube.pods.placing import PodRules
from headway.kube.pods.resources import OVER_PHASES, held_by, role_for
from headway.kube.settings import KubeSettings
from headway.kube.values import replace

QUEUE = f"{GROUP}/queue"
"""Label on a pod: its queue."""
Claims = Mapping[str, Mapping[str, BoundClaim]]
"""By the uid of a pod: its claims for volumes."""


def is_for_us(pod: Pod, settings: KubeSettings) -> bool:
    """Whether Headway is to find a node for it, or has done so."""
    if owner_uid(pod) or pod.status.phase in OVER_PHASES:
        return False
    if settings.namespace and pod.metadata.namespace != settings.namespace:
        return False
    if pod.spec.schedulerName == SCHEDULER:
        return bool(pod.spec.nodeName) or not pod.spec.schedulingGates
    return settings.beside and is_ours(pod)


def foreign_gang(
    ref: GroupRef | None, pods: Sequence[Pod], claims: Claims, settings: KubeSettings, now: float
) -> Gang:  # fmt: skip
    """`ref`: None for a pod that is alone. Raises `Unplaceable`, in a sentence, for what Headway cannot honour or does
    not allow.
    """
    first = min(pods, key=lambda pod: (pod.metadata.creationTimestamp, pod.metadata.name)).metadata
    kinds = _kinds(pods, claims)
    bound = any(pod.spec.nodeName for pod in pods)
    job = Job(
        id=JobId(f"{job_id(first.namespace, 'pod')}:{first.name}" if ref is None else ref.job), user=first.namespace,
        roles=tuple(kind.role(name) for name, kind in kinds.items()), queue=clean(first.labels.get(QUEUE, "")),
        submit=unix(first.creationTimestamp) - settings.began, can=Can.NOTHING, checkpoints=False,
    )  # fmt: skip
    job = _admitted(job, pods[0], settings, bound=bound)
    meta = first if ref is None else Meta(name=ref.name, namespace=ref.namespace, uid=ref.key)
    replicas = [
        foreign_replica(pod, role.name, index)
        for role, kind in zip(job.roles, kinds.values(), strict=True)
        for index, pod in enumerate(kind.pods)
    ]
    return as_found(Gang(
        meta=meta, job=job, can=FOREIGN if pods[0].spec.schedulerName == SCHEDULER else GATED,
        rules={role.name: kind.rules for role, kind in zip(job.roles, kinds.values(), strict=True)},
        wanted=Intent(since=now), pods={replica.uid: replica for replica in replicas},
    ), now)  # fmt: skip


@dataclass(slots=True)
class _Kind:
    """Pods of a gang that are alike."""

    held: dict[str, int]
    demands: Demands
    rules: PodRules
    pods: list[Pod]

    def role(self, name: str) -> Role:
        request = tuple(sorted((kind, amount) for kind, amount in self.held.items() if kind != PODS))
        count = len(self.pods)
        return role_for(Role(name=name, replicas=count, min=count, max=count, request=request), self.held, self.demands)


def _kinds(pods: Sequence[Pod], claims: Claims) -> dict[str, _Kind]:
    """By the name of the role. Pods of one name that hold or demand other things are another role."""
    found: dict[str, _Kind] = {}
    for pod in sorted(pods, key=lambda one: one.metadata.name):
        bound, named = bool(pod.spec.nodeName), role_of_pod(pod)
        demands = Demands() if bound else demands_of(pod.spec, claims.get(pod.metadata.uid, {}), gated=is_ours(pod))
        held, name, number = held_by(pod), named, 2
        while name in found and (found[name].held, found[name].demands) != (held, demands):
            name, number = f"{named}-{number}", number + 1
        rules = PodRules(facts_of(pod, placed=bound), demands)
        found.setdefault(name, _Kind(held, demands, rules, [])).pods.append(pod)
    return found


def _admitted(job: Job, pod: Pod, settings: KubeSettings, *, bound: bool) -> Job:
    rules = settings.claims.queues
    namespace, priority_class = pod.metadata.namespace, str(pod.spec.priorityClassName)
    claim = QueueClaim(queue=job.queue, priority_class=priority_class, namespace=namespace)
    try:
        return replace(job, queue=allowed_queue(rules, claim))
    except ClaimRefused as refused:
        if not bound:
            raise Unplaceable(f"metadata.labels[{QUEUE}]: {refused}") from refused
        return held_to(rules, job, namespace)
