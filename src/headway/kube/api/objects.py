"""Kubernetes objects with only the fields that Headway reads. Other fields are not decoded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

GROUP = "headway.dev"
VERSION = "v1alpha1"
KIND = "TrainingJob"
API_VERSION = f"{GROUP}/{VERSION}"
SCHEDULER = "headway"

LABEL_JOB = f"{GROUP}/job"
LABEL_ROLE = f"{GROUP}/role"
LABEL_INDEX = f"{GROUP}/index"
LABEL_ATTEMPT = f"{GROUP}/attempt"
PLANNED_NODE = f"{GROUP}/node"
"""Annotation on a pod: its node in the plan. A restarted scheduler reads it."""
SUBMITTED = f"{GROUP}/submitted"
"""Annotation on a TrainingJob: its submit time as Unix time, more exact than the server's whole seconds."""

LAST_MOMENT = 253_402_300_799.0
"""The last second of the year 9999: no date can be later."""

Quantities = dict[str, str | int | float]


class Owner(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    creationTimestamp: str = ""
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[Owner] = []


class Bare(msgspec.Struct):
    """Any object, of which only the metadata is read."""

    metadata: Meta = Meta()


class Resources(msgspec.Struct, frozen=True):
    requests: Quantities = {}
    limits: Quantities = {}


class Container(msgspec.Struct, frozen=True):
    name: str = ""
    resources: Resources = Resources()
    restartPolicy: str = ""
    ports: list[Port] = []


class PodSpec(msgspec.Struct, frozen=True):
    nodeName: str = ""
    schedulerName: object = ""
    priorityClassName: object = ""
    """Of any type: in a job's template it may be nonsense, of which a job is told elsewhere."""
    containers: list[Container] = []
    initContainers: list[Container] = []
    overhead: Quantities = {}
    resources: Resources | None = None
    """Of the whole pod; what it names takes the place of the containers' sum."""
    nodeSelector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topologySpreadConstraints: list[SpreadRule] = []
    volumes: list[Volume] = []
    schedulingGates: list[Named] = []
    resourceClaims: list[Named] = []
    schedulingGroup: object = None
    """The native gang of which it is."""


class Terminated(msgspec.Struct, frozen=True):
    exitCode: int = 0
    reason: str = ""
    message: str = ""
    finishedAt: str | None = None


class Pending(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    waiting: Pending | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()
    resources: Resources | None = None
    allocatedResources: Quantities = {}


class Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    containerStatuses: list[ContainerStatus] = []
    initContainerStatuses: list[ContainerStatus] = []
    nominatedNodeName: str = ""
    """The node on which preemption makes room for it."""
    resources: Resources | None = None
    allocatedResources: Quantities = {}


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(msgspec.Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: Quantities = {}
    conditions: list[Condition] = []


class NodeObject(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodRule(msgspec.Struct, frozen=True):
    """A configuration of webhooks that may change pods as they are made."""

    metadata: Meta
    webhooks: msgspec.Raw = msgspec.Raw()


class LimitRange(msgspec.Struct, frozen=True):
    """Defaults and bounds of what the pods of a namespace ask for."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw()


class MutatingPolicy(msgspec.Struct, frozen=True):
    """A MutatingAdmissionPolicy: what the API server itself changes in objects as they are made."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw()


class PolicyBinding(msgspec.Struct, frozen=True):
    """A MutatingAdmissionPolicyBinding: where a policy counts, and with which parameters."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw()


class RuntimeClass(msgspec.Struct, frozen=True):
    """What pods that name it hold beyond their containers, and on which nodes they may be."""

    metadata: Meta
    overhead: msgspec.Raw = msgspec.Raw()
    scheduling: msgspec.Raw = msgspec.Raw()


class TrainingJob(msgspec.Struct, frozen=True):
    """Spec and status stay raw bytes. They are decoded later, so that an error in them goes to the job's status."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Listed(msgspec.Struct, frozen=True):
    resourceVersion: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ObjectList(msgspec.Struct, frozen=True):
    """A page of a list. Items are decoded one by one, so that a bad one does not affect the others."""

    metadata: _Listed = _Listed()
    items: list[msgspec.Raw] | None = None


class WatchLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: list[_Cause] = []
    retryAfterSeconds: float = 0.0


class StatusObject(msgspec.Struct, frozen=True):
    """The API server's answer when it refuses a request."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def unix(timestamp: str | None) -> float:
    """A Kubernetes time as Unix time; 0 if there is none or it is invalid."""
    if not timestamp:
        return 0.0
    try:
        return dt.datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def timestamp(seconds: float) -> str:
    """A Unix time as Kubernetes writes it. What is outside the years 1970 to 9999 is moved to their ends."""
    moment = dt.datetime.fromtimestamp(min(max(seconds, 0.0), LAST_MOMENT), dt.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def named(meta: Meta, api_version: str = API_VERSION, kind: str = KIND) -> dict[str, str]:
    """The object as others refer to it."""
    found = {"apiVersion": api_version, "kind": kind, "name": meta.name, "namespace": meta.namespace}
    return found | ({"uid": meta.uid} if meta.uid else {})


def event(about: Mapping[str, str], reason: str, message: str, at: float, *, warning: bool) -> dict[str, Any]:
    """One Kubernetes event about an object."""
    when = timestamp(at)[:19] + "Z"
    return {
        "apiVersion": "v1", "kind": "Event", "involvedObject": about, "reason": reason, "message": message[:1000],
        "metadata": {"generateName": f"{about['name'][:40]}.", "namespace": about["namespace"]},
        "type": "Warning" if warning else "Normal", "source": {"component": SCHEDULER},
        "reportingComponent": SCHEDULER, "firstTimestamp": when, "lastTimestamp": when, "count": 1,
    }  # fmt: skip


# ruff: noqa: N815  Kubernetes' spelling


class Expression(msgspec.Struct, frozen=True):
    """A demand on a label: `{key: zone, operator: In, values: [a, b]}`."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(msgspec.Struct, frozen=True):
    matchLabels: dict[str, str] = {}
    matchExpressions: list[Expression] = []


class NodeTerm(msgspec.Struct, frozen=True):
    matchExpressions: list[Expression] = []
    matchFields: list[Expression] = []


class NodeTerms(msgspec.Struct, frozen=True):
    nodeSelectorTerms: list[NodeTerm] = []


class NodeAffinity(msgspec.Struct, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeTerms | None = None


class PodTerm(msgspec.Struct, frozen=True):
    labelSelector: LabelSelector | None = None
    topologyKey: str = ""
    namespaces: list[str] = []
    namespaceSelector: LabelSelector | None = None


class PodAffinity(msgspec.Struct, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: list[PodTerm] = []


class Affinity(msgspec.Struct, frozen=True):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class Toleration(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadRule(msgspec.Struct, frozen=True):
    """Of `topologySpreadConstraints`."""

    maxSkew: int = 1
    topologyKey: str = ""
    whenUnsatisfiable: str = "DoNotSchedule"
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: list[str] = []


class Port(msgspec.Struct, frozen=True):
    hostPort: int = 0
    hostIP: str = ""
    protocol: str = ""


class ClaimSource(msgspec.Struct, frozen=True):
    claimName: str = ""


class Volume(msgspec.Struct, frozen=True):
    name: str = ""
    persistentVolumeClaim: ClaimSource | None = None
    ephemeral: dict[str, object] | None = None


class Named(msgspec.Struct, frozen=True):
    """A scheduling gate, or a resource claim."""

    name: str = ""


MOST_LEVELS = 100
"""Headway accepts so many levels in a spec or a status. A pod template has about fifteen."""
READABLE_LEVELS = 300
"""A decoder can read so many. That is above `MOST_LEVELS`: what was cut is still seen to be too deep."""
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1
"""By byte: how it changes the level."""
_IS_MARK = _STEPS != 0
_IS_MARK[ord('"')] = True


def is_deeper(raw: bytes, levels: int = MOST_LEVELS) -> bool:
    """Whether there are more levels than so many. Most objects have fewer brackets than that."""
    return raw.count(b"{") + raw.count(b"[") > levels and depth(raw) > levels


def depth(raw: bytes) -> int:
    """The number of levels of maps and lists."""
    return int(_levels(raw)[1].max(initial=0))


def cut(raw: bytes, levels: int = READABLE_LEVELS) -> bytes:
    """The same JSON with null in place of what is deeper."""
    at, level = _levels(raw)
    deep = np.concatenate(([False], level > levels))
    changes = at[np.flatnonzero(deep[1:] != deep[:-1])].tolist()
    parts, kept = list[bytes](), 0
    for begins, ends in zip(changes[::2], changes[1::2], strict=False):
        parts += [raw[kept:begins], b"null"]
        kept = ends + 1  # the bracket that closes it
    return b"".join([*parts, raw[kept:]])


def _levels(raw: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """Where quotes and brackets are, and how many maps and lists are open after each."""
    marks = np.frombuffer(raw.replace(b"\\\\", b"--").replace(b'\\"', b"--"), np.uint8)  # escapes hide no quote
    at = np.flatnonzero(_IS_MARK[marks])
    steps = _STEPS[marks[at]]
    inside = np.logical_xor.accumulate(steps == 0)
    return at, np.cumsum(np.where(inside, np.int8(0), steps), dtype=np.int32)
