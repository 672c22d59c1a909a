"""How Headway knows its own pods again: a mark that only it can make, and a name that cannot be changed.

Example: somebody who may create pods in a namespace makes one that names a TrainingJob as its owner, with Headway's
labels. Without the mark it is a pod of others. A mark is good for one name, and a name exists once in a namespace, so a
mark that was read from a pod is of no use beside that pod. It also vouches for the node that was planned: after a
restart, a pod that is not bound yet is bound there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headway.kube.api.objects import GROUP, KIND, PLANNED_NODE, Meta, Pod

MARK = f"{GROUP}/mark"
"""Annotation on a pod."""


@dataclass(frozen=True, slots=True)
class PodMarks:
    key: bytes = b""
    """Kept in a Secret of Headway's own namespace, so that the next process knows the pods of this one."""

    def of(self, job: Meta, pod: str, node: str = "") -> str:
        """The mark of a job's pod of this name, planned for this node. An earlier version left the node out."""
        text = f"{job.uid}/{pod}/{node}" if node else f"{job.uid}/{pod}"
        return hashlib.blake2b(text.encode(), key=self.key, digest_size=12).hexdigest()


PodName = tuple[int, str, int]
"""Attempt, role and index: which replica a pod is. Its name says so, because labels can be changed and names cannot."""


def pod_name(job: str, attempt: int, role: str, index: int) -> str:
    return f"{job}-{attempt}-{role}-{index}"


def read_pod_name(pod: str, job: str) -> PodName | None:
    """The inverse of `pod_name`; None if it is no name of a pod of this job."""
    attempt, _, rest = pod.removeprefix(f"{job}-").partition("-")
    role, _, index = rest.rpartition("-")
    try:
        found = (int(attempt), role, int(index))
    except ValueError:
        return None
    return found if pod_name(job, *found) == pod else None


def owner_uid(pod: Pod) -> str:
    """The uid of the TrainingJob that this pod says it belongs to; empty if it names none."""
    for owner in pod.metadata.ownerReferences:
        if owner.controller and owner.kind == KIND and owner.apiVersion.startswith(f"{GROUP}/"):
            return owner.uid
    return ""


def is_marked(pod: Pod, job: Meta, marks: PodMarks) -> bool:
    """Whether Headway made this pod for this job. If it is not bound, its planned node is as Headway wrote it."""
    name, told = pod.metadata.name, pod.metadata.annotations
    good = {marks.of(job, name, told.get(PLANNED_NODE, ""))}
    if pod.spec.nodeName:
        good.add(marks.of(job, name))
    return claims(pod, job) and told.get(MARK) in good


def claims(pod: Pod, job: Meta) -> bool:
    """Whether the pod's namespace, owner and name are those of a pod of this job. Anybody can make such a pod."""
    meta = pod.metadata
    same = meta.namespace == job.namespace and owner_uid(pod) == job.uid
    return same and read_pod_name(meta.name, job.name) is not None
