"""Nodes as policies see them, each with a number. What foreign pods hold is taken off.

A node keeps its number while it exists or a job names it. A deleted node stays in the table, not ready, until another
takes its number. Where few nodes change, only those are made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.core.node import Node, Nodes
from headway.core.quantity import CPU, GPU, LARGEST, MEMORY, PODS, STORAGE
from headway.core.suits import write_mark
from headway.kube.api.objects import GROUP, NodeObject
from headway.kube.pods.resources import GPU_LABEL, GPU_NAMES, allocatable, gpu_name, with_gpu

DOMAIN_LABELS = (f"{GROUP}/domain", "topology.kubernetes.io/zone")
ACCELERATOR_LABELS = (
    f"{GROUP}/accelerator", "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name", "k8s.amazonaws.com/accelerator",
)  # fmt: skip
FIRST_KINDS = (CPU, MEMORY, GPU, PODS, STORAGE)
_BARRING = frozenset({"NoSchedule", "NoExecute"})
_CONDITION_TAINTS = "node.kubernetes.io/"
"""Prefix of Kubernetes' own taints: not ready, unreachable, under pressure. Such a node takes no new pods."""
_CORDONED = write_mark(f"{_CONDITION_TAINTS}unschedulable", None, "NoSchedule")
"""A cordon is a taint like any other: a pod that tolerates it may come, as the native scheduler has it."""


def is_ready(found: NodeObject) -> bool:
    """Whether the node's kubelet answers."""
    return any(c.type == "Ready" and c.status == "True" for c in found.status.conditions)


@dataclass(slots=True)
class NodeTable:
    """Gives each node a number when it is first seen. Numbers of nodes that are gone are used again."""

    numbers: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """By number."""
    spare: set[str] = field(default_factory=set)
    """Nodes that are gone and that no job names."""
    kinds: tuple[str, ...] = ()
    """Kinds of resources; one that comes later is added at the end."""
    table: Nodes = field(default_factory=lambda: Nodes.of(()))
    """As it was last made."""
    gpus: dict[str, str] = field(default_factory=dict)
    """By node: the resource name of its GPUs."""
    _made: dict[str, tuple[NodeObject | None, dict[str, int], Node]] = field(default_factory=dict)
    """By name: the node as it was last made, and of what."""

    def nodes(
        self, found: Mapping[str, NodeObject], foreign: Mapping[str, Mapping[str, int]], also: Iterable[str] = ()
    ) -> Nodes:
        """The table of all nodes that exist or are named by an allocation, and of some that are gone."""
        wanted = [*sorted(found), *also]
        self.spare.difference_update(wanted)
        for name in wanted:
            if name not in self.numbers:
                self._number(name)
        for name, one in found.items():
            if self._made.get(name, (None,))[0] is not one:
                self.gpus[name] = gpu_name(allocatable(one.status.allocatable))
        seen = {kind for one in found.values() for kind in self._kinds(one)}
        self.kinds = tuple(dict.fromkeys([*(self.kinds or FIRST_KINDS), *sorted(seen)]))
        self.table = Nodes.of(
            [self._kept(name, found.get(name), foreign.get(name, {})) for name in self.names], self.kinds
        )
        return self.table

    def adjusted(
        self, changed: Iterable[str], found: Mapping[str, NodeObject], foreign: Mapping[str, Mapping[str, int]]
    ) -> tuple[Nodes, list[int]] | None:
        """The table with these nodes as they are now, and the numbers of those that differ; None if the whole is to be
        made anew: a node came, or one has a kind of resource that none had.
        """
        changes: dict[int, Node] = {}
        for name in changed:
            number, one = self.numbers.get(name), found.get(name)
            if number is None or name in self.spare or (one is not None and not self._kinds(one) <= set(self.kinds)):
                return None
            if one is not None and self._made.get(name, (None,))[0] is not one:
                self.gpus[name] = gpu_name(allocatable(one.status.allocatable))
            node = self._kept(name, one, foreign.get(name, {}))
            if node != self.table.nodes[number]:
                changes[number] = node
        if changes:
            self.table = self.table.replaced(changes)
        return self.table, list(changes)

    @staticmethod
    def _kinds(one: NodeObject) -> set[str]:
        return {kind for kind in allocatable(one.status.allocatable) if kind not in GPU_NAMES}

    def keeps(self, name: str) -> bool:
        return name in self.numbers and name not in self.spare

    def _number(self, name: str) -> None:
        if not self.spare:
            self.numbers[name] = len(self.names)
            self.names.append(name)
            return
        old = min(self.spare, key=self.numbers.__getitem__)
        self.spare.remove(old)
        self.numbers[name] = number = self.numbers.pop(old)
        self._made.pop(old, None)
        self.gpus.pop(old, None)
        self.names[number] = name

    def _kept(self, name: str, found: NodeObject | None, foreign: Mapping[str, int]) -> Node:
        """Most nodes are as they were: those are not made again."""
        known = self._made.get(name)
        if known is not None and known[0] is found and known[1] == foreign:
            return known[2]
        node = self._node(name, found, foreign)
        self._made[name] = (found, dict(foreign), node)
        return node

    def _node(self, name: str, found: NodeObject | None, foreign: Mapping[str, int]) -> Node:
        if found is None:
            return Node(name=name, capacity=(), ready=False)
        labels, gpu = found.metadata.labels, self.gpus.get(name, "")
        have = {PODS: LARGEST - 1} | with_gpu(allocatable(found.status.allocatable), gpu)  # every kubelet says its pods
        held = with_gpu(foreign, gpu)
        capacity = {kind: max(0, have.get(kind, 0) - held.get(kind, 0)) for kind in self.kinds}
        labels = {**labels, GPU_LABEL: gpu} if gpu else labels
        taints = [
            write_mark(taint.key, taint.value or None, taint.effect)
            for taint in found.spec.taints
            if taint.effect in _BARRING and not _is_condition(taint.key)
        ]
        taints += [_CORDONED] if found.spec.unschedulable else []
        return Node(
            name=name, capacity=tuple(sorted(capacity.items())), labels=tuple(sorted(labels.items())),
            taints=tuple(sorted(set(taints))), domain=_first(labels, DOMAIN_LABELS),
            accelerator=_first(labels, ACCELERATOR_LABELS),
            ready=is_ready(found) and not _in_trouble(found),
        )  # fmt: skip


def _in_trouble(found: NodeObject) -> bool:
    return any(taint.effect in _BARRING and _is_condition(taint.key) for taint in found.spec.taints)


def _is_condition(key: str) -> bool:
    return key.startswith(_CONDITION_TAINTS) and not _CORDONED.startswith(f"{key}:")


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
