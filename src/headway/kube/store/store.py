"""What the API server last said of nodes and pods. Each message costs what it changes; nothing is scanned for one.

A pod goes to the gang that it is of: one that Headway made for a TrainingJob, or one of others that Headway binds. What
all other pods hold is taken off their nodes. Policies plan with what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headway.core.node import Nodes
from headway.kube.api.objects import NodeObject, Pod
from headway.kube.api.watch import Changed, Deleted, Listed, number_of
from headway.kube.gangs.foreign import joined
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.messages import Message, PodGone, PodSeen
from headway.kube.gangs.recover import OwnPod as RecoveredPod
from headway.kube.intake.groups import role_of_pod
from headway.kube.pods.marks import GangMark, PodMarks, claims, owner_uid
from headway.kube.pods.placement_rules import Neighbours, facts_of
from headway.kube.pods.replica import Replica, replica_of
from headway.kube.pods.resources import OVER_PHASES, held_by, with_gpu
from headway.kube.store.health import NodeHealth
from headway.kube.store.held import ForeignPods, Orphans, OwnPod, OwnPods
from headway.kube.store.nodes import NodeTable, is_ready
from headway.kube.store.versions import Versions

log = logging.getLogger("headway.kube")


@dataclass(slots=True)
class Store:
    began: float
    marks: PodMarks
    gangs: Mapping[str, Gang]
    """By uid; the cluster's own. A pod of others is a gang under its own uid."""
    tell: Callable[[str, Message], None]
    """Gives a gang, by uid, a message."""
    foreign_came: Callable[[Pod], None] = lambda _pod: None
    """A pod that is of no gang: perhaps Headway is to bind it."""
    stand_in_seen: Callable[[Pod], None] = lambda _pod: None
    stand_in_gone: Callable[[str], None] = lambda _uid: None
    health: NodeHealth = field(default_factory=NodeHealth)
    nodes: dict[str, NodeObject] = field(default_factory=dict)
    table: NodeTable = field(default_factory=NodeTable)
    foreign: ForeignPods = field(default_factory=ForeignPods)
    own: OwnPods = field(default_factory=OwnPods)
    neighbours: Neighbours = field(default_factory=Neighbours)
    orphans: Orphans = field(default_factory=Orphans)
    by_node: dict[str, set[str]] = field(default_factory=dict)
    """By node: the uids of gangs that have a pod there."""
    changed: set[str] = field(default_factory=set)
    """Nodes that matter to a plan in another way than before."""
    anew: bool = True
    """Nodes came or went: the whole table is made anew."""
    _gang_of: dict[str, str] = field(default_factory=dict)
    """By the uid of a pod: its gang's."""
    _nodes_of: dict[str, set[str]] = field(default_factory=dict)
    """By gang: where it is in `by_node`."""
    _versions: Versions = field(default_factory=Versions)

    # ── nodes ──

    def see_nodes(self, news: Listed[NodeObject] | Changed[NodeObject] | Deleted[NodeObject], now: float) -> None:
        match news:
            case Listed(objects=objects):
                there = {found.metadata.name for found in objects} | set(news.unread)
                for name in self.nodes.keys() - there:
                    self._lose_node(name, now)
                for found in objects:
                    self._see_node(found, now)
            case Deleted(object=found):
                self._lose_node(found.metadata.name, now)
            case Changed(object=found):
                self._see_node(found, now)

    def _lose_node(self, name: str, now: float) -> None:
        self.nodes.pop(name, None)
        self.neighbours.forget_node(name)
        self.health.lose(name, now)
        self.changed.add(name)

    def _see_node(self, found: NodeObject, now: float) -> None:
        name = found.metadata.name
        old = self.nodes.get(name)
        if old is not None and found.metadata.resourceVersion and found.metadata == old.metadata:
            return  # a list shows most nodes as they were
        self.nodes[name] = found
        self.neighbours.see_node(found)
        self.health.see(name, now, ready=is_ready(found))
        if old is None and name not in self.table.numbers:
            self.anew = True
        elif old is None or _differs(old, found):
            self.changed.add(name)

    def take_table(self, named: Iterable[str], now: float) -> tuple[Nodes, list[int] | None] | None:
        """The nodes as policies see them, and the numbers of those that differ (None: all may); None if none does.

        `named` are nodes that allocations name: they may have been deleted.
        """
        names = [name for name in named if name and not self.table.keeps(name)]
        self.changed |= self.foreign.changed
        self.foreign.changed = set()
        if not names and not self.anew and not self.changed:
            return None
        self.health.named(names, now)
        changed, self.changed = self.changed, set()
        if not names and not self.anew:
            found = self.table.adjusted(
                [name for name in changed if name in self.table.numbers], self.nodes, self.foreign.by_node
            )
            if found is not None:
                return found if found[1] else None
        self.anew = False
        return self.table.nodes(self.nodes, self.foreign.by_node, names), None

    def forget_unnamed(self, named: set[str]) -> None:
        """Nodes that are gone are forgotten, except for these, which a gang or a pod of one still names."""
        unnamed = self.health.absent_since.keys() - named
        self.health.forget(list(unnamed))
        self.table.spare |= unnamed & self.table.numbers.keys()
        for name in unnamed:
            if not any(self.foreign.by_node.get(name, {}).values()):
                self.foreign.by_node.pop(name, None)

    # ── pods ──

    def see_pods(self, news: Listed[Pod] | Changed[Pod] | Deleted[Pod]) -> None:
        match news:
            case Listed():
                compared = self._versions.compare(news)
                for uid in compared.gone:
                    self._gone(uid, news.version)
                for pod in compared.there:
                    self._take(pod)
            case Changed(object=pod):
                self.see_pod(pod)
            case Deleted(object=pod):
                self._gone(pod.metadata.uid, number_of(pod.metadata.resourceVersion))

    def see_pod(self, pod: Pod) -> None:
        """Takes in a pod from a watch or from an answer, whichever comes first. Older versions are ignored."""
        at = number_of(pod.metadata.resourceVersion)
        if at and at == self._versions.known.get(pod.metadata.uid):
            return  # the answer to a request showed it, and now the watch does
        if self._versions.take(pod.metadata):
            self._take(pod)

    def adopt(self, gang: Gang, pods: Iterable[Pod] = ()) -> None:
        """A gang has come: pods of it that were heard of before are its own; of a foreign one these."""
        for pod in pods:
            self._see_foreign(gang, pod)
        for found in self.orphans.of(gang.uid):
            self._take(found)

    def _take(self, pod: Pod) -> None:
        owner, uid = owner_uid(pod), pod.metadata.uid
        self._place(pod)
        self.orphans.drop(uid)
        gang = self.gangs.get(owner or self._gang_of.get(uid, uid))
        if owner and gang is None:
            self.orphans.put(owner, pod)
        if owner:
            self.stand_in_seen(pod)
        if not owner and gang is None:
            self.foreign_came(pod)
        if gang is not None and gang.is_foreign:
            self._see_foreign(gang, pod)
        elif gang is not None and (replica := self.replica(gang, pod)) is not None:
            self._see_own(gang, pod, replica)
        else:
            self.foreign.put(pod)
            if gang is not None and uid in gang.unproven:
                self._gang_of[uid] = gang.uid  # its gang waits until it is gone

    def _see_own(self, gang: Gang, pod: Pod, replica: Replica) -> None:
        self.own.put(gang.uid, replica.role, replica.node, pod)
        if pod.status.phase in OVER_PHASES:
            self.foreign.drop(pod.metadata.uid)
        self._index(gang.uid, replica)
        self.tell(gang.uid, PodSeen(replica))

    def _see_foreign(self, gang: Gang, pod: Pod) -> None:
        """What it holds beyond what the board has booked: it was resized, for example."""
        replica, node = joined(gang, pod, role_of_pod(pod)), pod.spec.nodeName
        role = next(role for role in gang.job.roles if role.name == replica.role)
        booked = dict(role.request) | dict(role.overhead)
        held = with_gpu(held_by(pod), self.table.gpus.get(node, ""))
        more = {kind: amount - booked.get(kind, 0) for kind, amount in held.items()}
        excess = {kind: amount for kind, amount in more.items() if amount > 0 and node and not replica.over}
        self.foreign.put_amounts(pod.metadata.uid, node, excess)
        self._index(gang.uid, replica)
        self.tell(gang.uid, PodSeen(replica))

    def replica(self, gang: Gang, pod: Pod) -> Replica | None:
        """The pod as one of this gang's; None if Headway did not make it for this job.

        Once it is known, it stays so, whatever others write to it.
        """
        known, mark = gang.pods.get(pod.metadata.uid), self.mark(gang, pod)
        if known is None and mark is None:
            return None
        planned = mark.node if mark is not None else known.node if known is not None else ""
        return replica_of(pod, gang.meta.name, self.began, planned)

    def mark(self, gang: Gang, pod: Pod) -> GangMark | None:
        found = self.marks.read(pod, gang.meta)
        if found is None and gang.unmarked and claims(pod, gang.meta):
            return GangMark(-1, pod.spec.nodeName)
        return found

    def own_pods(self, gang: Gang, pods: Iterable[Pod]) -> tuple[list[RecoveredPod], frozenset[str]]:
        """Of pods that say they are of this gang: those that prove it, and the uids of others that hold a node."""
        own, unproven = [], set()
        for pod in pods:
            mark = self.mark(gang, pod)
            replica = None if mark is None else self.replica(gang, pod)
            if mark is not None and replica is not None:
                own.append(RecoveredPod(replica, mark))
            elif claims(pod, gang.meta) and pod.spec.nodeName and pod.status.phase not in ("Succeeded", "Failed"):
                unproven.add(pod.metadata.uid)
        return own, frozenset(unproven)

    def _index(self, gang: str, replica: Replica) -> None:
        self._gang_of[replica.uid] = gang
        if replica.node:
            self.by_node.setdefault(replica.node, set()).add(gang)
            self._nodes_of.setdefault(gang, set()).add(replica.node)

    def _place(self, pod: Pod) -> None:
        """Other pods must know where this one is, if they mind it or it minds them."""
        node = pod.spec.nodeName or pod.status.nominatedNodeName
        if node and pod.status.phase not in OVER_PHASES:
            self.neighbours.put(pod.metadata.uid, node, facts_of(pod, placed=True))
        else:
            self.neighbours.drop(pod.metadata.uid)

    def _gone(self, uid: str, version: int) -> None:
        self._versions.end(uid, version)
        self.orphans.drop(uid)
        self.foreign.drop(uid)
        self.neighbours.drop(uid)
        self.own.drop(uid)
        self.stand_in_gone(uid)
        gang = self._gang_of.pop(uid, None)
        if gang is not None:
            self.tell(gang, PodGone(uid))

    def forget(self, gang: Gang) -> None:
        """The gang is followed no more."""
        for pod in gang.pods.values():
            self._gang_of.pop(pod.uid, None)
        for node in self._nodes_of.pop(gang.uid, ()):
            self.by_node.get(node, set()).discard(gang.uid)
            if not self.by_node.get(node, True):
                del self.by_node[node]
        self.own.unsettled.add(gang.uid)

    def on(self, nodes: Iterable[str]) -> set[str]:
        """The uids of gangs that have, or had, a pod on one of these nodes."""
        return {uid for node in nodes for uid in self.by_node.get(node, ())}

    def settle(self, booked: Callable[[str, OwnPod], Mapping[str, int]]) -> None:
        if self.own.unsettled:
            self.own.settle(booked, self.table.gpus, self.foreign)


def _differs(old: NodeObject, new: NodeObject) -> bool:
    """Whether anything changed that matters to a plan; a kubelet's heartbeat does not."""
    return (
        old.spec != new.spec or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable or is_ready(old) != is_ready(new)
    )  # fmt: skip
