"""Nodes as policies see them: what is allocatable less what foreign pods ask for. Pure.

A node keeps its number for as long as this process lives; one that is deleted stays, not ready. The kinds of resources
are settled by the first look, because placements are counted in them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.core.node import Node, Nodes
from headway.core.quantity import CPU, GPU, MEMORY, QuantityError, parse
from headway.kube.api.objects import GROUP, Container, NodeObject, Pod, Quantities

log = logging.getLogger("headway.kube")
GPU_NAMES = ("nvidia.com/gpu", f"{GROUP}/gpu", "amd.com/gpu", "gpu.intel.com/i915")
DOMAIN_LABELS = (f"{GROUP}/domain", "topology.kubernetes.io/zone")
ACCELERATOR_LABELS = (f"{GROUP}/accelerator", "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_BARRING = frozenset({"NoSchedule", "NoExecute"})
_CONDITION_TAINTS = "node.kubernetes.io/"
"""Kubernetes' own taints: not ready, unreachable, under pressure. Such a node takes nothing new."""


def kind_of(name: str) -> str:
    return GPU if name in GPU_NAMES else name


def amounts_of(quantities: Quantities, *, floor: bool = False) -> dict[str, int]:
    """The amounts that are planned with: cpu, memory, accelerators and other extended resources."""
    found: dict[str, int] = {}
    for name, value in quantities.items():
        if name not in (CPU, MEMORY) and "/" not in name:
            continue
        kind = kind_of(name)
        try:
            amount = parse(kind, value)
        except QuantityError:
            log.warning("resource %s: %r cannot be read and counts as none", name, value)
            continue
        whole = kind != MEMORY or str(value).endswith(("Mi", "Gi", "Ti"))
        found[kind] = found.get(kind, 0) + amount - (0 if whole or not floor or not amount else 1)
    return found


def pod_requests(pod: Pod) -> dict[str, int]:
    """What a pod asks for: its containers together, or its largest init container where that is more."""
    running: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in [*pod.spec.containers, *_sidecars(pod)]:
        for kind, amount in amounts_of(container.resources.requests).items():
            running[kind] = running.get(kind, 0) + amount
    for container in pod.spec.initContainers:
        for kind, amount in amounts_of(container.resources.requests).items():
            largest[kind] = max(largest.get(kind, 0), amount)
    total = {kind: max(running.get(kind, 0), largest.get(kind, 0)) for kind in {**running, **largest}}
    for kind, amount in amounts_of(pod.spec.overhead).items():
        total[kind] = total.get(kind, 0) + amount
    return total


def _sidecars(pod: Pod) -> list[Container]:
    return [container for container in pod.spec.initContainers if container.restartPolicy == "Always"]


def is_ready(found: NodeObject) -> bool:
    """Whether its kubelet answers."""
    return any(c.type == "Ready" and c.status == "True" for c in found.status.conditions)


@dataclass(slots=True)
class NodeTable:
    """Numbers nodes as they come."""

    numbers: dict[str, int] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    gpu: str = GPU_NAMES[0]
    """What a GPU is called on these nodes."""

    def nodes(
        self, found: Mapping[str, NodeObject], foreign: Mapping[str, Mapping[str, int]], also: Iterable[str] = ()
    ) -> Nodes:
        """The table of all nodes ever seen or named by an allocation."""
        for name in [*sorted(found), *also]:
            self.numbers.setdefault(name, len(self.numbers))
        self.gpu = next((n for o in found.values() for n in GPU_NAMES if n in o.status.allocatable), self.gpu)
        if not self.kinds:
            seen = {kind for o in found.values() for kind in amounts_of(o.status.allocatable)}
            self.kinds = tuple(dict.fromkeys([CPU, MEMORY, GPU, *sorted(seen)]))
        return Nodes.of([self._node(name, found.get(name), foreign.get(name, {})) for name in self.numbers], self.kinds)

    def _node(self, name: str, found: NodeObject | None, foreign: Mapping[str, int]) -> Node:
        if found is None:
            return Node(name=name, capacity=(), ready=False)
        labels = found.metadata.labels
        allocatable = amounts_of(found.status.allocatable, floor=True)
        capacity = {kind: max(0, allocatable.get(kind, 0) - foreign.get(kind, 0)) for kind in self.kinds}
        taints = [
            taint.key
            for taint in found.spec.taints
            if taint.effect in _BARRING and not taint.key.startswith(_CONDITION_TAINTS)
        ]
        return Node(
            name=name, capacity=tuple(sorted(capacity.items())), labels=tuple(sorted(labels.items())),
            taints=tuple(sorted(set(taints))), domain=_first(labels, DOMAIN_LABELS),
            accelerator=_first(labels, ACCELERATOR_LABELS),
            ready=is_ready(found) and not found.spec.unschedulable and not _in_trouble(found),
        )  # fmt: skip


def _in_trouble(found: NodeObject) -> bool:
    return any(t.effect in _BARRING and t.key.startswith(_CONDITION_TAINTS) for t in found.spec.taints)


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
