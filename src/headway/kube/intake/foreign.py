"""A pod that somebody else made and that names Headway as its scheduler, as a job of one replica.

Nothing may be done to it but to start it: it is not resized, moved or stopped, and never deleted. Its user is its
namespace. Its queue is its label `headway.dev/queue`. Pods of a controller that makes gangs wait, with the reason: one
by one they would be bound as half a gang.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.job import Can, Job, JobId, Role
from headway.core.quantity import PODS
from headway.core.queue_rules import ClaimRefused, QueueClaim, allowed_queue, held_to
from headway.core.states import State
from headway.core.text import clean
from headway.kube.api.objects import GROUP, SCHEDULER, Pod, unix
from headway.kube.gangs.foreign import ROLE
from headway.kube.gangs.gang import FOREIGN, Gang
from headway.kube.gangs.intent import Intent, RoleAllocation
from headway.kube.intake.spec import job_id
from headway.kube.pods.constraints import BoundClaim, Demands, Unplaceable, demands_of
from headway.kube.pods.marks import owner_uid
from headway.kube.pods.placement_rules import facts_of
from headway.kube.pods.placing import PodRules
from headway.kube.pods.replica import Replica, phase_of
from headway.kube.pods.resources import OVER_PHASES, held_by, role_for
from headway.kube.settings import KubeSettings
from headway.kube.values import replace

QUEUE = f"{GROUP}/queue"
"""Label on a pod: its queue."""
SINGLE = frozenset({"", "v1", "apps", "batch"})
"""API groups whose controllers make pods that can run one by one."""
GANG_LABELS = (
    "jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "training.kubeflow.org/job-name",
    "ray.io/cluster", "pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group",
)  # fmt: skip


def is_for_us(pod: Pod, namespace: str) -> bool:
    """Whether Headway is to find a node for it, or has done so. `namespace`: empty for all."""
    if pod.spec.schedulerName != SCHEDULER or owner_uid(pod) or pod.status.phase in OVER_PHASES:
        return False
    gated = pod.spec.schedulingGates and not pod.spec.nodeName
    return not gated and (not namespace or pod.metadata.namespace == namespace)


def unknown_gang(pod: Pod) -> str:
    """Why this pod is not bound alone; empty if it may be."""
    if pod.spec.nodeName:
        return ""
    for owner in pod.metadata.ownerReferences:
        if owner.controller and owner.apiVersion.rpartition("/")[0] not in SINGLE:
            return (
                f"its controller is a {owner.kind}, which makes gangs that Headway does not know; it is not bound alone"
            )
    label = next((label for label in GANG_LABELS if label in pod.metadata.labels), "")
    if label or pod.spec.schedulingGroup is not None:
        what = f"label {label}" if label else "spec.schedulingGroup"
        return f"it is of a gang ({what}) that Headway does not know; it is not bound alone"
    return ""


def foreign_replica(pod: Pod) -> Replica:
    return Replica(
        name=pod.metadata.name, role=ROLE, index=0, node=pod.spec.nodeName, uid=pod.metadata.uid,
        bound=bool(pod.spec.nodeName), phase=phase_of(pod)[0], version=pod.metadata.resourceVersion,
        deleting=pod.metadata.deletionTimestamp is not None,
    )  # fmt: skip


def foreign_gang(pod: Pod, claims: Mapping[str, BoundClaim], settings: KubeSettings, now: float) -> Gang:
    """Raises `Unplaceable`, in a sentence, for what Headway cannot honour or does not allow."""
    job, rules = _job(pod, claims, settings)
    node, meta = pod.spec.nodeName, pod.metadata
    intent = Intent(since=now)
    if node:
        here = (RoleAllocation(ROLE, (node,), job.roles[0].request),)
        intent = Intent(state=State.RUNNING, allocation=here, since=now)
    return Gang(
        meta=meta, job=job, can=FOREIGN, rules={ROLE: rules}, wanted=intent, pods={meta.uid: foreign_replica(pod)}
    )


def _job(pod: Pod, claims: Mapping[str, BoundClaim], settings: KubeSettings) -> tuple[Job, PodRules]:
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
    return job, PodRules(facts_of(pod, placed=bound), demands)
