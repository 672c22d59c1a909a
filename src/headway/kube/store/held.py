"""What pods hold of nodes beyond what plans have booked: all of a foreign pod, and the excess of one of our own.

Example: a webhook adds a sidecar to a pod that was booked without it. The sidecar's cpu counts as held by others until
the pod is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.kube.api.objects import Pod
from headway.kube.pods.gate import pinned_to
from headway.kube.pods.resources import OVER_PHASES, held_by, with_gpu


@dataclass(slots=True)
class ForeignPods:
    """What pods of others hold, as a sum per node that is updated with each pod; also pods that are nominated, or may
    run on one node only since their gate was lifted.
    """

    pods: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    by_node: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    """Nodes whose sum has changed since they were last looked at."""

    def put(self, pod: Pod) -> bool:
        """Adds or updates a pod; returns whether a node's sum changed."""
        node = pod.spec.nodeName or pod.status.nominatedNodeName or pinned_to(pod)
        if not node or pod.status.phase in OVER_PHASES:
            return self.drop(pod.metadata.uid)
        entry = (node, held_by(pod))
        if self.pods.get(pod.metadata.uid) == entry:
            return False
        self.drop(pod.metadata.uid)
        self.pods[pod.metadata.uid] = entry
        self._add(entry, +1)
        return any(entry[1].values())

    def put_amounts(self, uid: str, node: str, amounts: dict[str, int]) -> bool:
        """What a pod holds that no plan has booked; returns whether a node's sum changed."""
        if not any(amounts.values()):
            return self.drop(uid)
        if self.pods.get(uid) == (node, amounts):
            return False
        self.drop(uid)
        self.pods[uid] = (node, amounts)
        self._add(self.pods[uid], +1)
        return True

    def drop(self, uid: str) -> bool:
        """Removes a pod; returns whether a node's sum changed."""
        entry = self.pods.pop(uid, None)
        if entry is None:
            return False
        self._add(entry, -1)
        return any(entry[1].values())

    def _add(self, entry: tuple[str, dict[str, int]], sign: int) -> None:
        node = self.by_node.setdefault(entry[0], {})
        self.changed.add(entry[0])
        for kind, amount in entry[1].items():
            node[kind] = node.get(kind, 0) + sign * amount


class OwnPod(NamedTuple):
    gang: str
    role: str
    node: str
    held: dict[str, int]


@dataclass(slots=True)
class OwnPods:
    """Pods of our gangs, each with its role, its node and what it holds."""

    pods: dict[str, OwnPod] = field(default_factory=dict)
    by_gang: dict[str, set[str]] = field(default_factory=dict)
    """By the gang's uid: the uids of its pods."""
    unsettled: set[str] = field(default_factory=set)
    """Gangs whose pods or bookings have changed."""

    def put(self, gang: str, role: str, node: str, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.unsettled.add(gang)
        if pod.status.phase in OVER_PHASES:
            self.drop(uid)
        else:
            self.pods[uid] = OwnPod(gang, role, node, held_by(pod))
            self.by_gang.setdefault(gang, set()).add(uid)

    def drop(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            of_gang = self.by_gang[pod.gang]
            of_gang.discard(uid)
            if not of_gang:
                del self.by_gang[pod.gang]

    def of(self, gang: str) -> dict[str, OwnPod]:
        return {uid: self.pods[uid] for uid in self.by_gang.get(gang, ())}

    def settle(
        self, booked: Callable[[str, OwnPod], Mapping[str, int]], gpus: Mapping[str, str], foreign: ForeignPods
    ) -> bool:
        """Counts what pods hold beyond their bookings as foreign; returns whether a node's sum changed.

        `booked` says what is booked for each replica of a gang, by its uid, like this one.
        """
        changed = False
        for gang in self.unsettled:
            for uid, pod in self.of(gang).items():
                known, real = booked(gang, pod), with_gpu(pod.held, gpus.get(pod.node, ""))
                excess = {kind: more for kind, amount in real.items() if (more := amount - known.get(kind, 0)) > 0}
                changed |= foreign.put_amounts(uid, pod.node, excess)
        self.unsettled.clear()
        return changed


@dataclass(slots=True)
class Orphans:
    """Pods that say they are of a TrainingJob which is not known, or not yet: the watches of both are not in step."""

    _by_job: dict[str, dict[str, Pod]] = field(default_factory=dict)
    _job_of: dict[str, str] = field(default_factory=dict)

    def put(self, job: str, pod: Pod) -> None:
        self._by_job.setdefault(job, {})[pod.metadata.uid] = pod
        self._job_of[pod.metadata.uid] = job

    def drop(self, uid: str) -> None:
        job = self._job_of.pop(uid, None)
        if job is not None:
            del self._by_job[job][uid]
            if not self._by_job[job]:
                del self._by_job[job]

    def of(self, job: str) -> list[Pod]:
        return list(self._by_job.get(job, {}).values())
