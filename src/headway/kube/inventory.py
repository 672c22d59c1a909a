"""Nodes, and what pods hold of them, from the watches. Policies plan with what is left."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.core.node import Nodes
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed, number_of
from headway.kube.demand import Demand
from headway.kube.job.pod_marks import owner_uid
from headway.kube.lone.lone_pods import LonePods
from headway.kube.node_table import NodeTable, is_ready
from headway.kube.pod.neighbours import Neighbours, guest_of
from headway.kube.pod.resources import OVER_PHASES
from headway.kube.pods_held import ForeignPods, Orphans, OwnPods
from headway.kube.tracked import Tracked
from headway.kube.versions import Versions

log = logging.getLogger("headway.kube")


@dataclass(slots=True)
class Inventory:
    began: float = 0.0
    nodes: dict[str, NodeObject] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Nodes that were deleted, and nodes that an allocation names but that do not exist."""
    not_ready_since: dict[str, float] = field(default_factory=dict)
    foreign: ForeignPods = field(default_factory=ForeignPods)
    own: OwnPods = field(default_factory=OwnPods)
    neighbours: Neighbours = field(default_factory=Neighbours)
    table: NodeTable = field(default_factory=NodeTable)
    changed: bool = True
    """Something changed that matters to a plan."""
    orphans: Orphans = field(default_factory=Orphans)
    lone: LonePods | None = None
    demand: Demand | None = None
    _versions: Versions = field(default_factory=Versions)

    def take_table(self, named: Iterable[str] = (), jobs: Mapping[str, Tracked] | None = None) -> Nodes | None:
        """The nodes as policies see them; None if nothing changed. Allocations may name nodes that were deleted."""
        names = list(named)
        if jobs is not None and self.own.unsettled:
            self.changed |= self.own.settle(jobs, self.table.gpus, self.foreign)
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
                there = {found.metadata.name for found in objects}
                for name in self.nodes.keys() - there:
                    self._lose_node(name)
                for found in objects:
                    self._see_node(found, now)
            case Deleted(object=found):
                self._lose_node(found.metadata.name)
            case Changed(object=found):
                self._see_node(found, now)

    def _lose_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.neighbours.forget_node(name)
        self.not_ready_since.pop(name, None)
        self.absent.add(name)
        self.changed = True

    def _see_node(self, found: NodeObject, now: float) -> None:
        old = self.nodes.get(found.metadata.name)
        if old is not None and found.metadata.resourceVersion and found.metadata == old.metadata:
            return  # a list shows most nodes as they were
        self._node(found, now)
        self.changed |= old is None or _differs(old, found)

    def _node(self, found: NodeObject, now: float) -> None:
        name = found.metadata.name
        self.nodes[name] = found
        self.neighbours.see_node(found)
        self.absent.discard(name)
        if is_ready(found):
            self.not_ready_since.pop(name, None)
        else:
            self.not_ready_since.setdefault(name, now)

    def see_pods(self, news: Listed[Pod] | Changed[Pod] | Deleted[Pod], jobs: Mapping[str, Tracked]) -> None:
        """`jobs` by uid. A pod that Headway made for one of them goes to that job; all others count as foreign."""
        match news:
            case Listed():
                compared = self._versions.compare(news)
                for uid in compared.gone:
                    self._gone(uid, news.version, jobs)
                for pod in compared.there:
                    self._take(pod, jobs)
            case Changed(object=pod):
                self.see_pod(pod, jobs)
            case Deleted(object=pod):
                self._gone(pod.metadata.uid, number_of(pod.metadata.resourceVersion), jobs)

    def see_pod(self, pod: Pod, jobs: Mapping[str, Tracked]) -> None:
        """Takes in a pod from a watch or from a response, whichever comes first. Older versions are ignored."""
        if self._versions.take(pod.metadata):
            self._take(pod, jobs)

    def adopt(self, job: Tracked) -> None:
        """A job has come: pods of it that were heard of before are its own."""
        for pod in self.orphans.of(job.meta.uid):
            self._take(pod, {job.meta.uid: job})

    def _take(self, pod: Pod, jobs: Mapping[str, Tracked]) -> None:
        owner, uid = owner_uid(pod), pod.metadata.uid
        job = jobs.get(owner)
        self._seat(pod)
        self.orphans.drop(uid)
        if owner and job is None:
            self.orphans.put(owner, pod)
        if owner and self.demand is not None:
            self.demand.see(pod)
        if job is not None and job.owns(pod):
            self.own.put(job.meta.uid, pod)
            if pod.status.phase in OVER_PHASES:
                self.changed |= self.foreign.drop(uid)
            job.see(pod, self.began)
        elif self.lone is not None and self.lone.take(pod):
            self.changed |= self.foreign.put_amounts(uid, *self.lone.beyond(pod))
        else:
            self.changed |= self.foreign.put(pod)

    def _seat(self, pod: Pod) -> None:
        """Other pods must know where this one is, if they mind it or it minds them."""
        node = pod.spec.nodeName or pod.status.nominatedNodeName
        if node and pod.status.phase not in OVER_PHASES:
            self.neighbours.put(pod.metadata.uid, node, guest_of(pod, placed=True))
        else:
            self.neighbours.drop(pod.metadata.uid)

    def _gone(self, uid: str, version: int, jobs: Mapping[str, Tracked]) -> None:
        self._versions.end(uid, version)
        self.orphans.drop(uid)
        self.changed |= self.foreign.drop(uid)
        self.neighbours.drop(uid)
        self.own.drop(uid)
        if self.lone is not None:
            self.lone.gone(uid)
        if self.demand is not None:
            self.demand.gone(uid)
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
