"""Kubernetes objects with only the fields that Headway reads. Other fields are not decoded."""

from __future__ import annotations

import datetime as dt

import msgspec

from headway.kube.api.scheduling import Affinity, Named, Port, SpreadRule, Toleration, Volume

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
    apiVersion: str = ""  # noqa: N815  Kubernetes' spelling, here and below
    kind: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    creationTimestamp: str = ""  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[Owner] = []  # noqa: N815


class Bare(msgspec.Struct):
    """Any object, of which only the metadata is read."""

    metadata: Meta = Meta()


class Resources(msgspec.Struct, frozen=True):
    requests: Quantities = {}
    limits: Quantities = {}


class Container(msgspec.Struct, frozen=True):
    name: str = ""
    resources: Resources = Resources()
    restartPolicy: str = ""  # noqa: N815
    ports: list[Port] = []


class PodSpec(msgspec.Struct, frozen=True):
    nodeName: str = ""  # noqa: N815
    schedulerName: object = ""  # noqa: N815
    priorityClassName: object = ""  # noqa: N815
    """Of any type: in a job's template it may be nonsense, of which a job is told elsewhere."""
    containers: list[Container] = []
    initContainers: list[Container] = []  # noqa: N815
    overhead: Quantities = {}
    resources: Resources | None = None
    """Of the whole pod; what it names takes the place of the containers' sum."""
    nodeSelector: dict[str, str] = {}  # noqa: N815
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topologySpreadConstraints: list[SpreadRule] = []  # noqa: N815
    volumes: list[Volume] = []
    schedulingGates: list[Named] = []  # noqa: N815
    resourceClaims: list[Named] = []  # noqa: N815


class Terminated(msgspec.Struct, frozen=True):
    exitCode: int = 0  # noqa: N815
    reason: str = ""
    message: str = ""
    finishedAt: str | None = None  # noqa: N815


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
    allocatedResources: Quantities = {}  # noqa: N815


class Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    podIP: str = ""  # noqa: N815
    conditions: list[Condition] = []
    containerStatuses: list[ContainerStatus] = []  # noqa: N815
    initContainerStatuses: list[ContainerStatus] = []  # noqa: N815
    nominatedNodeName: str = ""  # noqa: N815
    """The node on which preemption makes room for it."""
    resources: Resources | None = None
    allocatedResources: Quantities = {}  # noqa: N815


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
    resourceVersion: str = ""  # noqa: N815
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
    retryAfterSeconds: float = 0.0  # noqa: N815


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
