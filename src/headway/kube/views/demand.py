"""Shows autoscalers which gangs lack nodes: pending pods of the first few, with `PodScheduled=False/Unschedulable`.

Example: a gang asks for four replicas of 8 GPUs, and no node has room. Four pods stand in for it, each as one of its
replicas would be. An autoscaler adds nodes for them. When the gang starts there with pods of its own, is cancelled, or
is no longer among the first, its stand-ins are deleted. They are never bound. A gang that its queue's quota keeps from
starting is not shown: nodes would not help it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headway.core.job import JobId
from headway.core.snapshot import Snapshot
from headway.kube.api.errors import Conflict
from headway.kube.api.objects import GROUP, LABEL_ATTEMPT, LABEL_INDEX, LABEL_ROLE, Meta, Pod
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.model import Create, Delete, PodAction, SetCondition
from headway.kube.pods.body import pod_of
from headway.kube.pods.conditions import NO_ROOM, UNSCHEDULABLE, unscheduled
from headway.kube.pods.marks import owner_uid
from headway.kube.pods.resources import GPU_LABEL
from headway.kube.settings import KubeSettings
from headway.kube.values import replace
from headway.kube.writes.outbox import Outbox
from headway.kube.writes.write import What, WriteDone

log = logging.getLogger("headway.kube")
STANDS_IN = f"{GROUP}/stands-in"
"""Label on such a pod: the name of its role."""
MOST_PODS = 256
"""Stand-ins of one gang."""
AGAIN_SECONDS = 30.0
"""After this a refused stand-in is tried again: a ResourceQuota may be full."""
PREFIX = "stand-ins/"
"""Before the uid of a gang: whose a write is."""


@dataclass(slots=True)
class StandIn:
    uid: str
    namespace: str
    told: bool


@dataclass(slots=True)
class Demand:
    outbox: Outbox
    settings: KubeSettings
    pods: dict[str, dict[str, StandIn]] = field(default_factory=dict)
    """By the uid of the gang and the name of the pod: all that exist."""
    _gang_of: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the uid of the pod: where it is in `pods`."""
    _again: dict[str, float] = field(default_factory=dict)
    """By gang: when a refused stand-in is tried again."""
    _shown: dict[str, Gang] = field(default_factory=dict)
    """Gangs that are shown."""

    # ── what the watch tells ──

    def see(self, pod: Pod) -> None:
        meta, gang = pod.metadata, owner_uid(pod)
        if not gang or STANDS_IN not in meta.labels or meta.deletionTimestamp is not None:
            return
        told = any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)
        known = self.pods.setdefault(gang, {}).get(meta.name)
        told |= known is not None and known.uid == meta.uid and known.told
        self.pods[gang][meta.name] = StandIn(meta.uid, meta.namespace, told)
        self._gang_of[meta.uid] = (gang, meta.name)

    def gone(self, uid: str) -> None:
        gang, name = self._gang_of.pop(uid, ("", ""))
        there = self.pods.get(gang, {})
        there.pop(name, None)
        if not there:
            self.pods.pop(gang, None)

    # ── what to do ──

    def follow(self, shown: Snapshot, following: Callable[[JobId], Gang | None], now: float) -> None:
        """Shows what the gangs of this snapshot lack, once its plan has begun."""
        if self.settings.demand_gangs or self.pods:
            found = (following(shown.jobs.job(int(row)).id) for row in shown.jobs.waiting())
            self.update((gang for gang in found if gang is not None), now)

    def update(self, waiting: Iterable[Gang], now: float) -> None:
        """`waiting`: the gangs that wait, first come first."""
        wanted: dict[str, Gang] = {}
        for gang in waiting:
            if len(wanted) >= self.settings.demand_gangs:
                break
            if gang.waits and not gang.is_foreign and not gang.terms.withdrawn and gang.wanted.reason in NO_ROOM:
                wanted[gang.uid] = gang
        for uid in [uid for uid in self.pods if uid not in wanted]:
            self._take_back(uid)
        for uid, gang in wanted.items():
            if now >= self._again.get(uid, 0.0):
                self._show(gang)
        self._again = {uid: at for uid, at in self._again.items() if uid in wanted}
        self._shown = wanted

    def answered(self, done: WriteDone, now: float) -> None:
        uid, what = done.write.key.removeprefix(PREFIX), done.write.what
        if done.error is None and isinstance(what, SetCondition) and what.name in self.pods.get(uid, {}):
            self.pods[uid][what.name].told = True
        if done.gone and isinstance(what, Delete):
            self.gone(what.uid)
        elif done.error is not None and not isinstance(done.error, Conflict):
            log.info("stand-ins of gang %s: %s", uid, done.error)
            self._again[uid] = now + AGAIN_SECONDS
        elif uid in self._shown and now >= self._again.get(uid, 0.0):
            self._show(self._shown[uid])

    def _show(self, gang: Gang) -> None:
        """Makes the stand-ins that lack, and says of each why it has no node."""
        there, meta, actions = self.pods.get(gang.uid, {}), gang.meta, list[What]()
        for name, one in there.items():
            if not one.told:
                actions.append(SetCondition(name, one.uid, UNSCHEDULABLE, gang.wanted.message))
        for role in gang.job.roles:
            for index in range(min(role.replicas, MOST_PODS)):
                name = f"{meta.name[:200]}-stands-in-{role.name}-{index}"
                if name not in there:
                    actions.append(Create(name, role.name, index, 0, "", role.request))
        self.outbox.want(meta, actions, lambda action: self._body(gang, action), key=PREFIX + gang.uid)

    def _body(self, gang: Gang, action: What) -> dict[str, Any]:
        if isinstance(action, SetCondition):
            return unscheduled(action.uid, action.reason, action.why)
        assert isinstance(action, Create)
        role = gang.job.role(action.role)
        selector = dict(role.selector)
        vendor = selector.pop(GPU_LABEL, self.settings.pods.gpu)
        body = pod_of(action, gang.job, gang.meta, gang.terms.template, replace(self.settings.pods, gpu=vendor))
        labels, spec = body["metadata"]["labels"], body["spec"]
        for label in (LABEL_ROLE, LABEL_INDEX, LABEL_ATTEMPT):
            labels.pop(label, None)
        labels[STANDS_IN] = role.name
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
        return body

    def _take_back(self, uid: str) -> None:
        there = self.pods[uid]
        actions: list[PodAction] = [Delete(name, one.uid, grace=0) for name, one in there.items()]
        meta = Meta(name=next(iter(there)), namespace=next(iter(there.values())).namespace, uid=uid)
        self.outbox.want(meta, actions, lambda _action: {}, key=PREFIX + uid)
