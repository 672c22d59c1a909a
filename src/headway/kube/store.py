"""What the watches tell, kept in order: nodes, the pods of our jobs by job, and what foreign pods take."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed
from headway.kube.job.replica import owner_uid
from headway.kube.nodes import is_ready, pod_requests
from headway.kube.tracked import Tracked

MOST_TOMBSTONES = 10_000


@dataclass(slots=True)
class Foreign:
    """What pods that are not ours ask for, by node; kept by difference."""

    pods: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    by_node: dict[str, dict[str, int]] = field(default_factory=dict)

    def put(self, pod: Pod) -> bool:
        """Whether any node's sum changed."""
        if not pod.spec.nodeName or pod.status.phase in ("Succeeded", "Failed"):
            return self.drop(pod.metadata.uid)
        entry = (pod.spec.nodeName, pod_requests(pod))
        if self.pods.get(pod.metadata.uid) == entry:
            return False
        self.drop(pod.metadata.uid)
        self.pods[pod.metadata.uid] = entry
        self._add(entry, +1)
        return any(entry[1].values())

    def drop(self, uid: str) -> bool:
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
class Store:
    records: dict[str, Tracked] = field(default_factory=dict)
    """By the TrainingJob's uid."""
    nodes: dict[str, NodeObject] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Nodes that were, or that an allocation names, and that there are not."""
    not_ready_since: dict[str, float] = field(default_factory=dict)
    foreign: Foreign = field(default_factory=Foreign)
    nodes_changed: bool = True
    _versions: dict[str, int] = field(default_factory=dict)
    _dead: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def see_nodes(self, news: Listed[NodeObject] | Changed[NodeObject] | Deleted[NodeObject], now: float) -> None:
        match news:
            case Listed(objects=objects):
                self.absent |= self.nodes.keys()
                self.nodes = {}
                for found in objects:
                    self._node(found, now)
                self.nodes_changed = True
            case Deleted(object=found):
                self.nodes.pop(found.metadata.name, None)
                self.not_ready_since.pop(found.metadata.name, None)
                self.absent.add(found.metadata.name)
                self.nodes_changed = True
            case Changed(object=found):
                old = self.nodes.get(found.metadata.name)
                self._node(found, now)
                self.nodes_changed |= old is None or _differs(old, found)

    def _node(self, found: NodeObject, now: float) -> None:
        name = found.metadata.name
        self.nodes[name] = found
        self.absent.discard(name)
        if is_ready(found):
            self.not_ready_since.pop(name, None)
        else:
            self.not_ready_since.setdefault(name, now)

    def gone(self, now: float, patience: float) -> frozenset[str]:
        """Nodes whose pods count as lost: silent for too long, or no longer there."""
        if not self.not_ready_since and not self.absent:
            return frozenset()
        silent = {name for name, since in self.not_ready_since.items() if now - since >= patience}
        return frozenset(silent | self.absent)

    def see_pods(self, news: Listed[Pod] | Changed[Pod] | Deleted[Pod]) -> None:
        match news:
            case Listed(objects=objects):
                there = {pod.metadata.uid for pod in objects}
                for uid in [uid for uid in self._versions if uid not in there]:
                    self._gone(uid)
                for pod in objects:
                    self.see_pod(pod)
            case Changed(object=pod):
                self.see_pod(pod)
            case Deleted(object=pod):
                self._gone(pod.metadata.uid)

    def see_pod(self, pod: Pod) -> None:
        """From a watch or from an answer, whichever comes first; older news than we have is dropped."""
        uid, version = pod.metadata.uid, pod.metadata.resourceVersion
        number = int(version) if version.isdecimal() else 0
        if uid in self._dead or number < self._versions.get(uid, 0):
            return
        self._versions[uid] = number
        record = self.records.get(owner_uid(pod))
        if record is not None:
            self.nodes_changed |= self.foreign.drop(uid)
            record.see(pod)
        else:
            self.nodes_changed |= self.foreign.put(pod)

    def _gone(self, uid: str) -> None:
        self._versions.pop(uid, None)
        self._dead[uid] = None
        if len(self._dead) > MOST_TOMBSTONES:
            self._dead.popitem(last=False)
        self.nodes_changed |= self.foreign.drop(uid)
        for record in self.records.values():
            if uid in record.replicas:
                record.lose(uid)
                return


def _differs(old: NodeObject, new: NodeObject) -> bool:
    """In anything that matters to a plan; a kubelet's heartbeat does not."""
    return (
        old.spec != new.spec or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable or is_ready(old) != is_ready(new)
    )  # fmt: skip
