"""Nodes, and what foreign pods hold of them, from the watches. Policies plan with what is left.

A node keeps its number while it exists or a job names it. A deleted node stays in the table, not ready, until another
takes its number. The kinds of resources are fixed at the start, because placements are counted in them.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.core.node import Node, Nodes
from headway.core.quantity import CPU, GPU, LARGEST, MEMORY, PODS, STORAGE
from headway.core.suits import write_mark
from headway.kube.api.objects import GROUP, NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.job.pod_marks import owner_uid
from headway.kube.pod.resources import GPU_LABEL, GPU_NAMES, OVER_PHASES, allocatable, gpu_name, held_by, with_gpu
from headway.kube.tracked import Tracked

log = logging.getLogger("headway.kube")
MAX_TOMBSTONES = 10_000
DOMAIN_LABELS = (f"{GROUP}/domain", "topology.kubernetes.io/zone")
ACCELERATOR_LABELS = (f"{GROUP}/accelerator", "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_BARRING = frozenset({"NoSchedule", "NoExecute"})
_CONDITION_TAINTS = "node.kubernetes.io/"
"""Prefix of Kubernetes' own taints: not ready, unreachable, under pressure. Such a node takes no new pods."""


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
        if not self.kinds:
            seen = {kind for o in found.values() for kind in allocatable(o.status.allocatable) if kind not in GPU_NAMES}
            self.kinds = tuple(dict.fromkeys([CPU, MEMORY, GPU, PODS, STORAGE, *sorted(seen)]))
        return Nodes.of([self._kept(name, found.get(name), foreign.get(name, {})) for name in self.names], self.kinds)

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
class Inventory:
    began: float = 0.0
    nodes: dict[str, NodeObject] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Nodes that were deleted, and nodes that an allocation names but that do not exist."""
    not_ready_since: dict[str, float] = field(default_factory=dict)
    foreign: ForeignPods = field(default_factory=ForeignPods)
    table: NodeTable = field(default_factory=NodeTable)
    changed: bool = True
    """Something changed that matters to a plan."""
    _versions: dict[str, int] = field(default_factory=dict)
    _dead: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def take_table(self, named: Iterable[str] = ()) -> Nodes | None:
        """The nodes as policies see them; None if nothing changed. Allocations may name nodes that were deleted."""
        names = list(named)
        if not self.changed and all(self.table.keeps(name) for name in names):
            return None
        self.absent |= {name for name in names if name not in self.nodes}
        self.changed = False
        return self.table.nodes(self.nodes, self.foreign.by_node, names)

    def forget_unnamed(self, named: set[str]) -> None:
        """Nodes that are gone are forgotten, except for these, which a job or a pod of one still names."""
        unnamed = self.absent - named
        self.absent -= unnamed
        self.table.spare |= unnamed & self.table.numbers.keys()
        for name in unnamed:
            if not any(self.foreign.by_node.get(name, {}).values()):
                self.foreign.by_node.pop(name, None)

    def gone(self, now: float, timeout: float) -> frozenset[str]:
        """Nodes whose pods count as lost: not ready for `timeout` seconds, or deleted."""
        if not self.not_ready_since and not self.absent:
            return frozenset()
        silent = {name for name, since in self.not_ready_since.items() if now - since >= timeout}
        return frozenset(silent | self.absent)

    # ── messages of the watches ─────────────────────────────────────────────────────────────────────────

    def see_nodes(self, news: Listed[NodeObject] | Changed[NodeObject] | Deleted[NodeObject], now: float) -> None:
        match news:
            case Listed(objects=objects):
                self.absent |= self.nodes.keys()
                there = {found.metadata.name for found in objects}
                self.nodes = {}
                self.not_ready_since = {name: at for name, at in self.not_ready_since.items() if name in there}
                for found in objects:
                    self._node(found, now)
                self.changed = True
            case Deleted(object=found):
                self.nodes.pop(found.metadata.name, None)
                self.not_ready_since.pop(found.metadata.name, None)
                self.absent.add(found.metadata.name)
                self.changed = True
            case Changed(object=found):
                old = self.nodes.get(found.metadata.name)
                self._node(found, now)
                self.changed |= old is None or _differs(old, found)

    def _node(self, found: NodeObject, now: float) -> None:
        name = found.metadata.name
        self.nodes[name] = found
        self.absent.discard(name)
        if is_ready(found):
            self.not_ready_since.pop(name, None)
        else:
            self.not_ready_since.setdefault(name, now)

    def see_pods(self, news: Listed[Pod] | Changed[Pod] | Deleted[Pod], jobs: Mapping[str, Tracked]) -> None:
        """`jobs` by uid. A pod that Headway made for one of them goes to that job; all others count as foreign."""
        match news:
            case Listed(objects=objects):
                there = {pod.metadata.uid for pod in objects}
                for uid in [uid for uid in self._versions if uid not in there]:
                    self._gone(uid, jobs)
                for pod in objects:
                    self.see_pod(pod, jobs)
            case Changed(object=pod):
                self.see_pod(pod, jobs)
            case Deleted(object=pod):
                self._gone(pod.metadata.uid, jobs)

    def see_pod(self, pod: Pod, jobs: Mapping[str, Tracked]) -> None:
        """Takes in a pod from a watch or from a response, whichever comes first. Older versions are ignored."""
        uid, version = pod.metadata.uid, pod.metadata.resourceVersion
        number = int(version) if version.isdecimal() else 0
        if uid in self._dead or number < self._versions.get(uid, 0):
            return
        self._versions[uid] = number
        job = jobs.get(owner_uid(pod))
        if job is not None and job.owns(pod):
            self.changed |= self.foreign.drop(uid)
            job.see(pod, self.began)
        else:
            self.changed |= self.foreign.put(pod)

    def _gone(self, uid: str, jobs: Mapping[str, Tracked]) -> None:
        self._versions.pop(uid, None)
        self._dead[uid] = None
        if len(self._dead) > MAX_TOMBSTONES:
            self._dead.popitem(last=False)
        self.changed |= self.foreign.drop(uid)
        for job in jobs.values():
            if uid in job.replicas:
                job.lose(uid)
                return


def _differs(old: NodeObject, new: NodeObject) -> bool:
    """Whether anything changed that matters to a plan; a kubelet's heartbeat does not."""
    return (
        old.spec != new.spec or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable or is_ready(old) != is_ready(new)
    )  # fmt: skip
