"""How Headway knows its own pods again: a mark that only it can make, and a name that cannot be changed.

Example: somebody who may create pods in a namespace makes one that names a TrainingJob as its owner, with Headway's
labels. Without the mark it is a pod of others. A mark is good for one name, and a name exists once in a namespace, so a
mark that was read from a pod is of no use beside that pod. It also says of which gang the pod is: attempt, counts of
all roles, its amounts and its node. So a process that is killed in the middle of a start leaves all that the next one
must know in the pods themselves. Of a pod that is bound, the node in its mark must be the one where it is.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.core.job import Amounts
from headway.kube.api.objects import GROUP, KIND, PLANNED_NODE, Meta, Pod

GANG = f"{GROUP}/gang"
"""Annotation on a pod: of which gang it is, signed."""
OLD_MARK = f"{GROUP}/mark"
"""The mark of an earlier version, which vouched for name and node only. Still written, for a rollback."""


class GangMark(msgspec.Struct, frozen=True):
    """What a pod says of its gang."""

    attempt: int
    node: str
    """Where it is planned."""
    counts: dict[str, int] = {}
    """Replicas of each role; empty in a mark of an earlier version."""
    amounts: dict[str, int] = {}
    """What one replica of its role asks for."""
    queue: str = ""
    epoch: int = 0
    """Of the process that made it."""

    @property
    def asks(self) -> Amounts:
        return tuple(sorted(self.amounts.items()))


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(GangMark)


@dataclass(frozen=True, slots=True)
class PodMarks:
    key: bytes = b""
    """Kept in a Secret of Headway's own namespace, so that the next process knows the pods of this one."""

    def written(self, job: Meta, pod: str, mark: GangMark) -> dict[str, str]:
        """The annotations of a job's pod of this name."""
        text = _encoder.encode(mark).decode()
        old = self._signed(f"{job.uid}/{pod}/{mark.node}")
        return {GANG: f"{self._signed(f'{job.uid}/{pod}/{text}')} {text}", OLD_MARK: old, PLANNED_NODE: mark.node}

    def read(self, pod: Pod, job: Meta) -> GangMark | None:
        """What the pod says of its gang; None if Headway did not make it for this job, or it is not where it was
        planned.
        """
        named = read_pod_name(pod.metadata.name, job.name)
        if named is None or not claims(pod, job):
            return None
        told, name, at = pod.metadata.annotations, pod.metadata.name, pod.spec.nodeName
        sign, _, text = told.get(GANG, "").partition(" ")
        if text and self._is(sign, f"{job.uid}/{name}/{text}"):
            mark = _decoder.decode(text)
            return mark if at in ("", mark.node) and mark.attempt == named[0] else None
        if text:
            return None
        planned, old = told.get(PLANNED_NODE, ""), told.get(OLD_MARK, "")
        if self._is(old, f"{job.uid}/{name}/{planned}") and at in ("", planned):
            return GangMark(named[0], planned)
        unplanned = at and self._is(old, f"{job.uid}/{name}")  # an earlier version left the node out
        return GangMark(named[0], at) if unplanned else None

    def _signed(self, text: str) -> str:
        return hashlib.blake2b(text.encode(), key=self.key, digest_size=12).hexdigest()

    def _is(self, sign: str, text: str) -> bool:
        return hmac.compare_digest(sign.encode(errors="replace"), self._signed(text).encode())


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


def claims(pod: Pod, job: Meta) -> bool:
    """Whether the pod's namespace, owner and name are those of a pod of this job. Anybody can make such a pod."""
    meta = pod.metadata
    same = meta.namespace == job.namespace and owner_uid(pod) == job.uid
    return same and read_pod_name(meta.name, job.name) is not None


def same_mark(pod: Pod, body: dict[str, Any]) -> bool:
    """Whether a pod that is there already is the one that this body would make: the answer to its create was lost."""
    meant = body.get("metadata", {}).get("annotations", {}).get(GANG, "")
    return bool(meant) and pod.metadata.annotations.get(GANG) == meant
