"""The parts of a pod's spec that say where it may run, with only the fields that Headway reads."""

from __future__ import annotations

import msgspec

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
