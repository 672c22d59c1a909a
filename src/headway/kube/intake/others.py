"""Pods that somebody else made and that are not on the board yet: one by one they are read, and gathered into gangs.

Example: a Job of four pods. The first is read, and so is the Job; the pod waits, and is told "1 of the 4 pods of Job
resnet are there". With the fourth the gang comes onto the board. A pod that is made later, in place of one that has
failed, joins the gang that is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.job import JobId
from headway.core.text import clean
from headway.kube.api.objects import Pod, TrainingJob
from headway.kube.gangs.fault import sentence
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.recover import Recovered
from headway.kube.inbox import ClaimsRead
from headway.kube.intake.foreign import foreign_gang
from headway.kube.intake.groups import Group, GroupRead, GroupRef, group_of, size_by_label, unknown_gang
from headway.kube.intake.stages import Entry, IntakeStage, Reads, Tells
from headway.kube.pods.conditions import HELD_BACK, UNSCHEDULABLE, WAITING, pod_event, unscheduled
from headway.kube.pods.constraints import BoundClaim, Unplaceable
from headway.kube.settings import KubeSettings

log = logging.getLogger("headway.kube")
PASSING_SECONDS = 3.0
"""After this a job or pod that lacks a claim, a volume or its group is looked at again."""
LACKING_SECONDS = 30.0
"""After this the object of a gang that lacks pods is read again: some may be done meanwhile."""
LONGEST_TEXT = 2000


@dataclass(slots=True)
class Others:
    settings: KubeSettings
    reads: Reads
    tells: Tells
    gangs: Mapping[str, Gang]
    ids: Mapping[JobId, str]
    now: Callable[[], float]
    joins: Callable[[Gang, Sequence[Pod]], None]
    """A pod has come to a gang that is on the board."""
    entries: dict[str, Entry]
    """The intake's own."""
    put: Callable[[TrainingJob | Pod], None]
    """It is read in its namespace's turn."""
    waits: Callable[[Entry, JobId], None]
    """It is read when an earlier gang of this name is forgotten."""
    _claims: dict[str, Mapping[str, BoundClaim]] = field(default_factory=dict)
    """By the uid of a pod: claims for volumes that were read."""
    _groups: dict[str, Group] = field(default_factory=dict)
    """By the key of a gang: its pods that are not on the board."""
    _group_of: dict[str, str] = field(default_factory=dict)
    """By the uid of a pod: where it is in `_groups`."""

    def taken(self, entry: Entry) -> Recovered | None:
        """The gang of a pod whose turn it is, if the gang is whole and may come."""
        pod = entry.found
        assert isinstance(pod, Pod)
        uid, volumes = pod.metadata.uid, any(volume.persistentVolumeClaim for volume in pod.spec.volumes)
        if volumes and not pod.spec.nodeName and uid not in self._claims:
            entry.stage = IntakeStage.VOLUMES
            self.reads.read_claims(pod)
            return None
        why, passing = unknown_gang(pod), False
        if not why:
            try:
                return self._gang(entry, pod)
            except Unplaceable as error:
                why, passing = str(error), error.passing
            except Exception as error:  # noqa: BLE001  one pod must not keep all others out
                why = sentence("take in this pod", error)
        self._refuse(entry, pod, why)
        if passing:
            entry.stage = IntakeStage.VOLUMES
            self.reads.read_claims(pod, PASSING_SECONDS)
        return None

    def hear(self, answer: ClaimsRead | GroupRead) -> None:
        if isinstance(answer, ClaimsRead):
            entry = self.entries.get(answer.uid)
            if entry is not None and entry.stage is IntakeStage.VOLUMES:
                self._claims[answer.uid] = answer.claims
                self.put(entry.found)
            return
        group = self._groups.get(answer.ref.key)
        if group is None:
            return
        group.size, group.why = answer.size, answer.why
        if answer.size is None or group.lacks():
            self.reads.read_group(answer.ref, PASSING_SECONDS if answer.size is None else LACKING_SECONDS)
        for pod in group.pods.values():
            self.put(pod)

    def gone(self, uid: str) -> None:
        """The pod is gone, or on the board."""
        self._claims.pop(uid, None)
        key = self._group_of.pop(uid, None)
        if key is not None:
            group = self._groups[key]
            del group.pods[uid]
            if not group.pods:
                del self._groups[key]

    # ── inside ──

    def _gang(self, entry: Entry, pod: Pod) -> Recovered | None:
        ref, uid = group_of(pod), pod.metadata.uid
        if ref is not None and (known := self.gangs.get(ref.key)) is not None:
            if known.is_over:  # the rest of it comes as another gang, as soon as this one is forgotten
                entry.stage = IntakeStage.VOLUMES
                self.reads.read_claims(pod, PASSING_SECONDS)
                return None
            del self.entries[uid]
            self.gone(uid)
            self.joins(known, [pod])
            return None
        group = None if ref is None else self._group(ref, pod)
        alone = group is None or group.size == 1
        if group is not None and not alone and (lacks := group.lacks()):
            entry.stage = IntakeStage.GROUP
            self._hold(entry, pod, lacks)
            return None
        pods = [pod] if group is None or alone else [self._newest(one) for one in group.pods.values()]
        gang = foreign_gang(None if alone else ref, pods, self._claims, self.settings, self.now())
        if gang.job.id in self.ids:
            self.waits(entry, gang.job.id)
            return None
        for one in pods:
            self.gone(one.metadata.uid)
        return Recovered(gang, {}, tuple(pods))

    def _newest(self, pod: Pod) -> Pod:
        """As it is now: it may have changed since its turn."""
        entry = self.entries.get(pod.metadata.uid)
        return entry.found if entry is not None and isinstance(entry.found, Pod) else pod

    def _group(self, ref: GroupRef, pod: Pod) -> Group:
        group = self._groups.get(ref.key)
        if group is None:
            group = self._groups[ref.key] = Group(ref)
            if ref.kind == "Group":
                read = size_by_label(pod)
                group.size, group.why = read.size, read.why
            else:
                self.reads.read_group(ref)
        group.pods[pod.metadata.uid] = pod
        self._group_of[pod.metadata.uid] = ref.key
        return group

    def _hold(self, entry: Entry, pod: Pod, why: str) -> None:
        """Says in the condition of a pod what its gang waits for."""
        if entry.told != why and not pod.spec.nodeName:
            entry.told, meta = why, pod.metadata
            reason = HELD_BACK if pod.spec.schedulingGates else WAITING
            self.tells.condition(meta, unscheduled(meta.uid, reason, clean(why, LONGEST_TEXT // 2)))

    def _refuse(self, entry: Entry, pod: Pod, why: str) -> None:
        """Says once, in an event and in its condition, why Headway gives the pod no node."""
        meta, why = pod.metadata, clean(why, LONGEST_TEXT // 2)
        entry.stage, told, entry.told = IntakeStage.REFUSED, entry.told, why
        if pod.spec.nodeName or told == why:
            return
        log.warning("pod %s/%s is not bound: %s", meta.namespace, meta.name, why)
        reason = HELD_BACK if pod.spec.schedulingGates else UNSCHEDULABLE
        self.tells.condition(meta, unscheduled(meta.uid, reason, why))
        self.tells.event(meta.namespace, pod_event(meta, "FailedScheduling", why))
