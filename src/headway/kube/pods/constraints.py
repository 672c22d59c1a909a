"""Where one pod may run by itself: labels, taints, volumes. What cannot be honoured is refused with the reason. Pure.

What depends on other pods is in `neighbours`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from headway.core.suits import ANY, NODE_NAME, OPERATORS, Requirement, write_mark, write_selector
from headway.kube.api.objects import Expression, LabelSelector, NodeTerm, NodeTerms, PodSpec, Toleration

MAX_ALTERNATIVES = 64
_NOWHERE = f"{NODE_NAME} in ()"
"""A selector that no node matches: as Kubernetes reads a term without a demand."""
ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region",
               "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")  # fmt: skip


class Unplaceable(ValueError):  # noqa: N818  it names what the pod is
    """A pod that Headway will not bind, and why, in a sentence that names the field."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing
        """It may be otherwise in a while, without a change of the pod."""


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """A claim for a volume, as far as it says where its pods may run."""

    bound: bool = True
    waits: bool = False
    """Unbound, and its class binds it only when a scheduler has chosen the node."""
    affinity: NodeTerms | None = None
    labels: tuple[tuple[str, str], ...] = ()
    """The zone labels of its volume."""


@dataclass(frozen=True, slots=True)
class Demands:
    """In the words of a role: see `core.job.Role`."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[str, ...] = ()
    tolerates: tuple[str, ...] = ()
    own_affinity: tuple[str, ...] = ()
    """The part of `affinity` that is no volume's."""


def demands_of(spec: PodSpec, claims: Mapping[str, BoundClaim], *, gated: bool = False) -> Demands:
    """What the pod demands of its node. Raises `Unplaceable` if Headway cannot honour it. `gated`: by our gate."""
    _refuse(spec, gated=gated)
    rules = [terms for claim in _claims(spec, claims) if (terms := _of_volume(claim)) is not None]
    node = spec.affinity.nodeAffinity if spec.affinity is not None else None
    own: tuple[str, ...] = ()
    if node is not None and node.requiredDuringSchedulingIgnoredDuringExecution is not None:
        own = _selectors(node.requiredDuringSchedulingIgnoredDuringExecution)
        rules.append(own)
    return Demands(
        tuple(sorted(spec.nodeSelector.items())),
        _all_of(rules),
        tuple(dict.fromkeys(mark for t in spec.tolerations if (mark := toleration(t)))),
        own,
    )


def _refuse(spec: PodSpec, *, gated: bool = False) -> None:
    if spec.nodeName:
        raise Unplaceable(
            f"spec.nodeName: names node {spec.nodeName!r}, but Headway chooses the node: use nodeSelector"
        )
    if spec.schedulingGates and not gated:
        names = ", ".join(gate.name for gate in spec.schedulingGates)
        raise Unplaceable(f"spec.schedulingGates: the pod would wait for {names}, and its gang with it")
    if spec.resourceClaims:
        raise Unplaceable(
            "spec.resourceClaims: Headway does not allocate claimed devices (DRA); ask for them as resources, such as"
            " nvidia.com/gpu: 1, which a device plugin on the nodes must offer"
        )


def toleration(given: Toleration) -> str:
    """As `core.suits` writes it. Empty for a comparison of numbers, which tolerates nothing where it is not enabled."""
    if given.operator not in ("", "Equal", "Exists"):
        return ""
    return write_mark(given.key or ANY, None if given.operator == "Exists" else given.value, given.effect)


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────


def _all_of(rules: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Selectors one of which holds exactly if of each rule one selector holds."""
    combined = 1
    for rule in rules:
        combined *= len(rule)
    if combined > MAX_ALTERNATIVES:
        raise Unplaceable(
            f"spec.affinity.nodeAffinity: its terms and those of the volumes have {combined} combinations;"
            f" Headway looks at {MAX_ALTERNATIVES} at most"
        )
    return tuple(", ".join(parts) for parts in product(*rules)) if rules else ()


def _selectors(terms: NodeTerms) -> tuple[str, ...]:
    return tuple(_selector(term) for term in terms.nodeSelectorTerms) or (_NOWHERE,)


def _selector(term: NodeTerm) -> str:
    """One term. A term without any demand matches no node."""
    demands = [_requirement(one, one.key) for one in term.matchExpressions]
    for one in term.matchFields:
        if one.key != "metadata.name":
            raise Unplaceable(f"spec.affinity.nodeAffinity: matchFields knows metadata.name only, not {one.key!r}")
        demands.append(_requirement(one, NODE_NAME))
    return write_selector(demands) or _NOWHERE


def _requirement(one: Expression, key: str) -> Requirement:
    if one.operator not in OPERATORS:
        raise Unplaceable(f"spec.affinity: label {one.key!r} has the operator {one.operator!r}, which is not known")
    return Requirement(key, one.operator, tuple(one.values))


def requirements(selector: LabelSelector | None) -> tuple[Requirement, ...] | None:
    """The requirements of a selector of pods; None if it matches nothing."""
    if selector is None:
        return None
    equal = [Requirement(key, "In", (value,)) for key, value in sorted(selector.matchLabels.items())]
    return (*equal, *(_requirement(one, one.key) for one in selector.matchExpressions))


# ── volumes ─────────────────────────────────────────────────────────────────────────────────────────────────


def _claims(spec: PodSpec, claims: Mapping[str, BoundClaim]) -> list[BoundClaim]:
    found = []
    for volume in spec.volumes:
        if volume.ephemeral is not None:
            raise Unplaceable(
                f"spec.volumes: {volume.name} is made with the pod, after its node is chosen; claim one before"
            )
        source = volume.persistentVolumeClaim
        if source is None:
            continue
        claim = claims.get(source.claimName)
        if claim is None:
            raise Unplaceable(
                f"spec.volumes: the claim {source.claimName!r} of volume {volume.name} does not exist", passing=True
            )
        if claim.waits:
            raise Unplaceable(
                f"spec.volumes: the claim {source.claimName!r} waits for its first pod before it gets a volume, which"
                " may then be on another node; bind it first"
            )
        if not claim.bound:
            raise Unplaceable(f"spec.volumes: the claim {source.claimName!r} has no volume yet", passing=True)
        found.append(claim)
    return found


def _of_volume(claim: BoundClaim) -> tuple[str, ...] | None:
    """Of the volume's own node affinity and of its zone labels, where several zones are joined by `__`."""
    zones = [
        Requirement(key, "In", tuple(value.split("__"))) for key, value in claim.labels if key in ZONE_LABELS
    ]  # fmt: skip
    near = write_selector(zones)
    if claim.affinity is None:
        return (near,) if near else None
    return tuple(f"{near}, {one}" if near else one for one in _selectors(claim.affinity))
