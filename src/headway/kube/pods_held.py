"""What pods hold of nodes beyond what plans have booked: all of a foreign pod, and the excess of one of our own.

Example: a webhook adds a sidecar to a pod that was booked without it. The sidecar's cpu counts as held by others until
the pod is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.kube.api.objects import LABEL_ROLE, PLANNED_NODE, Pod
from headway.kube.pod.resources import OVER_PHASES, held_by, with_gpu
from headway.kube.tracked import Tracked


@dataclass(slots=True)
class ForeignPods:
    """What pods of others hold, as a sum per node that is updated with each pod; also pods that are nominated."""

    pods: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    by_node: dict[str, dict[str, int]] = field(default_factory=dict)

    def put(self, pod: Pod) -> bool:
        """Adds or updates a pod; returns whether a node's sum changed."""
        node = pod.spec.nodeName or pod.status.nominatedNodeName
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
        for kind, amount in entry[1].items():
            node[kind] = node.get(kind, 0) + sign * amount


@dataclass(slots=True)
class OwnPods:
    """Pods of our jobs, each with its role, its node and what it holds."""

    pods: dict[str, dict[str, tuple[str, str, dict[str, int]]]] = field(default_factory=dict)
    """By the job's uid and the pod's."""
    unsettled: set[str] = field(default_factory=set)
    """Jobs whose pods or bookings have changed."""

    def put(self, job: str, pod: Pod) -> None:
        node = pod.spec.nodeName or pod.metadata.annotations.get(PLANNED_NODE, "")
        of_job = self.pods.setdefault(job, {})
        if pod.status.phase in OVER_PHASES:
            of_job.pop(pod.metadata.uid, None)
        else:
            of_job[pod.metadata.uid] = (pod.metadata.labels.get(LABEL_ROLE, ""), node, held_by(pod))
        self.unsettled.add(job)

    def drop(self, uid: str) -> None:
        for of_job in self.pods.values():
            of_job.pop(uid, None)

    def settle(self, jobs: Mapping[str, Tracked], gpus: Mapping[str, str], foreign: ForeignPods) -> bool:
        """Counts what pods hold beyond their bookings as foreign; returns whether a node's sum changed."""
        changed = False
        for uid in self.unsettled:
            for pod, (role, node, held) in self.pods.get(uid, {}).items():
                booked = booked_for(jobs[uid], role, node) if uid in jobs else {}
                real = with_gpu(held, gpus.get(node, ""))
                excess = {kind: amount - booked.get(kind, 0) for kind, amount in real.items()}
                changed |= foreign.put_amounts(pod, node, {kind: more for kind, more in excess.items() if more > 0})
            if uid not in jobs or not self.pods.get(uid):
                self.pods.pop(uid, None)
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


def booked_for(job: Tracked, role: str, node: str) -> dict[str, int]:
    """What the board holds on this node for each replica of the role; nothing if it holds nothing there."""
    board, row = job.board, job.board.row(job.job.id)
    where = board.nodes.index.get(node)
    number = next((number for number, one in enumerate(job.job.roles) if one.name == role), None)
    if row is None or where is None or number is None:
        return {}
    shape = board.table.shape_at(row)
    found = [one.vector(shape, number) for one in board.held(row) if where in one.nodes[number]]
    return dict(zip(board.nodes.kinds, np.max(found, axis=0).tolist(), strict=True)) if found else {}
