"""Shows autoscalers which gangs lack nodes: pending pods of the first few, with `PodScheduled=False/Unschedulable`.

Example: a gang asks for four replicas of 8 GPUs, and no node has room. Four pods stand in for it, each as one of its
replicas would be. An autoscaler adds nodes for them. When the gang starts there with pods of its own, is cancelled, or
is no longer among the first, its stand-ins are deleted. They are never bound. A gang that its queue's quota keeps from
starting is not shown: nodes would not help it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.core.job import JobId, Role
from headway.core.snapshot import Snapshot
from headway.kube.api.errors import Conflict
from headway.kube.api.objects import GROUP, LABEL_ATTEMPT, LABEL_INDEX, LABEL_ROLE, Pod
from headway.kube.job.pod_marks import owner_uid
from headway.kube.job.pods import pod_of
from headway.kube.pod.conditions import NO_ROOM, UNSCHEDULABLE, unscheduled
from headway.kube.pod.resources import GPU_LABEL
from headway.kube.reconcile.model import Create, Delete, PodAction, SetCondition
from headway.kube.settings import KubeSettings
from headway.kube.tracked import Tracked
from headway.kube.work import ApiWork, Performed, PodRequest
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
STANDS_IN = f"{GROUP}/stands-in"
"""Label on such a pod: the name of its role."""
MOST_PODS = 256
"""Stand-ins of one gang."""
AGAIN_SECONDS = 30.0
"""After this a refused stand-in is tried again: a ResourceQuota may be full."""


@dataclass(frozen=True, slots=True)
class DemandToken:
    """Comes back with an answer: it is about stand-ins, not about the job itself."""


@dataclass(slots=True)
class StandIn:
    uid: str
    namespace: str
    told: bool


@dataclass(slots=True)
class Demand:
    worker: ApiWorker
    settings: KubeSettings
    pods: dict[str, dict[str, StandIn]] = field(default_factory=dict)
    """By the uid of the job and the name of the pod: all that exist."""
    _job_of: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the uid of the pod: where it is in `pods`."""
    _busy: set[str] = field(default_factory=set)
    """Jobs about whose stand-ins a request is under way."""
    _again: dict[str, float] = field(default_factory=dict)
    _why: dict[str, str] = field(default_factory=dict)
    """By job: why it waits; of those that are shown."""

    # ── what the watch tells ────────────────────────────────────────────────────────────────────────────

    def see(self, pod: Pod) -> None:
        meta, job = pod.metadata, owner_uid(pod)
        if not job or STANDS_IN not in meta.labels or meta.deletionTimestamp is not None:
            return
        told = any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)
        self.pods.setdefault(job, {})[meta.name] = StandIn(meta.uid, meta.namespace, told)
        self._job_of[meta.uid] = (job, meta.name)

    def gone(self, uid: str) -> None:
        job, name = self._job_of.pop(uid, ("", ""))
        there = self.pods.get(job, {})
        there.pop(name, None)
        if not there:
            self.pods.pop(job, None)

    # ── what to do ──────────────────────────────────────────────────────────────────────────────────────

    def follow(self, shown: Snapshot, by_id: Mapping[JobId, Tracked], now: float) -> None:
        """Shows what the jobs of this snapshot lack, once its plan has begun."""
        if self.settings.demand_gangs or self.pods:
            names = (shown.jobs.job(int(row)).id for row in shown.jobs.waiting())
            self.update((by_id[name] for name in names if name in by_id), now)

    def update(self, waiting: Iterable[Tracked], now: float) -> None:
        """`waiting`: the jobs that wait, first come first."""
        wanted: dict[str, Tracked] = {}
        for job in waiting:
            if len(wanted) >= self.settings.demand_gangs:
                break
            if job.waits and not job.withdrawn and job.said[0] in NO_ROOM:
                wanted[job.meta.uid] = job
        for uid in [uid for uid in self.pods if uid not in wanted and uid not in self._busy]:
            self._take_back(uid)
        for uid, job in wanted.items():
            if uid not in self._busy and now >= self._again.get(uid, 0.0):
                self._show(job)
        self._again = {uid: at for uid, at in self._again.items() if uid in wanted}
        self._why = {uid: why for uid, why in self._why.items() if uid in wanted}

    def answered(self, message: Performed, now: float) -> None:
        work = message.work
        self._busy.discard(work.uid)
        for result in message.results:
            if result.gone and isinstance(result.action, Delete):
                self.gone(result.action.uid)
            elif result.pod is not None:
                self.see(result.pod)
            elif result.error is not None and not isinstance(result.error, Conflict):
                log.info("stand-ins of job %s: %s", work.name, result.error)
                self._again[work.uid] = now + AGAIN_SECONDS
        if requests := self._untold(work.uid):
            self._perform(work.uid, work.namespace, work.name, requests)

    def _show(self, job: Tracked) -> None:
        there, meta = self.pods.get(job.meta.uid, {}), job.meta
        self._why[meta.uid] = job.said[1]
        requests = self._untold(meta.uid)
        for role in job.job.roles:
            for index in range(min(role.replicas, MOST_PODS)):
                name = f"{meta.name[:200]}-stands-in-{role.name}-{index}"
                if name not in there:
                    requests.append(PodRequest(*self._stand_in(job, role, index, name)))
        if requests:
            self._perform(meta.uid, meta.namespace, meta.name, requests)

    def _untold(self, uid: str) -> list[PodRequest]:
        """The conditions of stand-ins that have none yet."""
        if uid not in self._why:
            return []
        untold = {name: one for name, one in self.pods.get(uid, {}).items() if not one.told}
        for one in untold.values():
            one.told = True
        return [
            PodRequest(SetCondition(name, one.uid), unscheduled(one.uid, UNSCHEDULABLE, self._why[uid]))
            for name, one in untold.items()
        ]

    def _stand_in(self, job: Tracked, role: Role, index: int, name: str) -> tuple[PodAction, dict[str, Any]]:
        create = Create(name, role.name, index, 0, "", role.request)
        selector = dict(role.selector)
        vendor = selector.pop(GPU_LABEL, self.settings.pods.gpu)
        body = pod_of(create, job.job, job.meta, job.template, replace(self.settings.pods, gpu=vendor))
        labels, spec = body["metadata"]["labels"], body["spec"]
        for label in (LABEL_ROLE, LABEL_INDEX, LABEL_ATTEMPT):
            labels.pop(label, None)
        labels[STANDS_IN] = role.name
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
        return create, body

    def _take_back(self, uid: str) -> None:
        there = self.pods[uid]
        requests = [PodRequest(Delete(name, one.uid, grace=0)) for name, one in there.items()]
        namespace = next(iter(there.values())).namespace
        self._perform(uid, namespace, next(iter(there)), requests)

    def _perform(self, uid: str, namespace: str, name: str, requests: list[PodRequest]) -> None:
        self._busy.add(uid)
        self.worker.perform(ApiWork(uid, namespace, name, None, tuple(requests), DemandToken()))
