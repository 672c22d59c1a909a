"""Where a pod may run given the pods that are there: (anti-)affinity, spread and host ports. As the native scheduler.

`Neighbours` follows all pods that have a node. `Question` is about one pod: it is counted once and then answers for any
node. Pods with equal labels are counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from headway.core.suits import NODE_NAME, Requirement, matches, tolerated, write_mark
from headway.kube.api.objects import NodeObject, Pod, PodTerm, SpreadRule
from headway.kube.pods.constraints import Demands, Unplaceable, requirements

T = TypeVar("T")
HostPort = tuple[str, str, int]
"""Protocol, address of the host, port."""
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  as Kubernetes names it; nothing listens here
Pair = tuple[str, str]
"""A topology label and its value: a domain."""


class Term(NamedTuple):
    """Which pods, in which topology."""

    key: str
    namespaces: frozenset[str] | None
    """None: all."""
    selector: tuple[Requirement, ...] | None

    def means(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if self.selector is None or not (self.namespaces is None or namespace in self.namespaces):
            return False
        return all(one.holds(labels) for one in self.selector)


class Spread(NamedTuple):
    key: str
    max: int
    """How many pods more than the emptiest domain any domain may have."""
    domains: int
    selector: tuple[Requirement, ...] | None
    by_affinity: bool
    by_taints: bool


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as its neighbours see it."""

    namespace: str = ""
    labels: tuple[Pair, ...] = ()
    leaving: bool = False
    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    ports: frozenset[HostPort] = frozenset()

    @property
    def minds(self) -> bool:
        """Whether it matters to this pod itself where others are."""
        return bool(self.near or self.apart or self.spread or self.ports)


def facts_of(pod: Pod, *, placed: bool = False) -> PodFacts:
    """Raises `Unplaceable` for a demand that Headway cannot honour. Of a placed pod it is taken as a wider one."""
    meta, affinity = pod.metadata, pod.spec.affinity
    near = affinity.podAffinity if affinity is not None else None
    apart = affinity.podAntiAffinity if affinity is not None else None
    rules = [rule for rule in pod.spec.topologySpreadConstraints if rule.whenUnsatisfiable == "DoNotSchedule"]
    nears = () if near is None or placed else near.requiredDuringSchedulingIgnoredDuringExecution
    aparts = () if apart is None else apart.requiredDuringSchedulingIgnoredDuringExecution
    return PodFacts(
        meta.namespace, tuple(sorted(meta.labels.items())), meta.deletionTimestamp is not None,
        tuple(_term(one, meta.namespace, placed) for one in nears),
        tuple(_term(one, meta.namespace, placed) for one in aparts),
        () if placed else tuple(_spread(rule, meta.labels) for rule in rules),
        frozenset(_ports(pod)),
    )  # fmt: skip


def _term(given: PodTerm, namespace: str, placed: bool) -> Term:
    chosen = given.namespaceSelector
    if chosen is None:
        return Term(given.topologyKey, frozenset(given.namespaces or [namespace]), requirements(given.labelSelector))
    if not placed and (chosen.matchLabels or chosen.matchExpressions):
        raise Unplaceable("spec.affinity: Headway reads no labels of namespaces; list the namespaces of the pod term")
    return Term(given.topologyKey, None, requirements(given.labelSelector))


def _spread(rule: SpreadRule, labels: Mapping[str, str]) -> Spread:
    selector = requirements(rule.labelSelector)
    if selector is not None:
        keys = [key for key in rule.matchLabelKeys if key in labels]
        selector = (*selector, *(Requirement(key, "In", (labels[key],)) for key in keys))
    return Spread(
        rule.topologyKey, rule.maxSkew, rule.minDomains or 1, selector,
        rule.nodeAffinityPolicy != "Ignore", rule.nodeTaintsPolicy == "Honor",
    )  # fmt: skip


def _ports(pod: Pod) -> Iterable[HostPort]:
    sidecars = [container for container in pod.spec.initContainers if container.restartPolicy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.hostPort > 0:
                yield port.protocol or "TCP", port.hostIP or EVERY_ADDRESS, port.hostPort


@dataclass(slots=True)
class PodsOnNode:
    """A node as a place among others."""

    labels: Mapping[str, str]
    taints: tuple[str, ...]
    pods: Counter[PodFacts]


@dataclass(slots=True)
class Neighbours:
    places: dict[str, PodsOnNode] = field(default_factory=dict)
    pods: dict[str, tuple[str, PodFacts]] = field(default_factory=dict)
    """By uid: the node, which may be unknown yet, and the pod."""
    by_node: dict[str, Counter[PodFacts]] = field(default_factory=dict)
    avoid: Counter[tuple[Term, str]] = field(default_factory=Counter)
    """Pods that others keep away, by the node of these others."""

    def see_node(self, found: NodeObject) -> None:
        name, labels = found.metadata.name, found.metadata.labels
        taints = tuple(
            write_mark(taint.key, taint.value, taint.effect)
            for taint in found.spec.taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )
        pods = self.by_node.setdefault(name, Counter())
        self.places[name] = PodsOnNode({**labels, NODE_NAME: name}, taints, pods)

    def forget_node(self, name: str) -> None:
        self.places.pop(name, None)
        if not self.by_node.get(name):
            self.by_node.pop(name, None)

    def put(self, uid: str, node: str, facts: PodFacts) -> None:
        if self.pods.get(uid) == (node, facts):
            return
        self.drop(uid)
        self.pods[uid] = (node, facts)
        self.by_node.setdefault(node, Counter())[facts] += 1
        for term in facts.apart:
            self.avoid[term, node] += 1

    def drop(self, uid: str) -> None:
        if uid not in self.pods:
            return
        node, facts = self.pods.pop(uid)
        _less(self.by_node[node], facts)
        for term in facts.apart:
            _less(self.avoid, (term, node))
        if not self.by_node[node] and node not in self.places:
            del self.by_node[node]

    def ask(self, facts: PodFacts, demands: Demands) -> Question:
        return Question.about(facts, demands, self)


@dataclass(slots=True)
class Question:
    """May this pod run on a node, given where all others are?"""

    facts: PodFacts
    places: Mapping[str, PodsOnNode]
    kept_away: set[Pair] = field(default_factory=set)
    """Domains from which pods that are there keep it away."""
    avoided: set[Pair] = field(default_factory=set)
    """Domains with pods that it avoids."""
    wanted: Counter[Pair] = field(default_factory=Counter)
    """By domain: pods that it wants to be near."""
    counts: list[Counter[str]] = field(default_factory=list)
    """By spread rule: pods in each domain."""

    @classmethod
    def about(cls, facts: PodFacts, demands: Demands, others: Neighbours) -> Question:
        asked = cls(facts, others.places)
        labels = dict(facts.labels)
        for term, node in others.avoid:
            place = others.places.get(node)
            if place is not None and term.key in place.labels and term.means(facts.namespace, labels):
                asked.kept_away.add((term.key, place.labels[term.key]))
        if facts.near or facts.apart:
            for place in others.places.values():
                asked._count_terms(place)
        asked.counts = [_counts(rule, facts, demands, others.places.values()) for rule in facts.spread]
        return asked

    def _count_terms(self, place: PodsOnNode) -> None:
        for other, count in place.pods.items():
            labels = dict(other.labels)
            if self.facts.near and all(term.means(other.namespace, labels) for term in self.facts.near):
                for term in self.facts.near:
                    if term.key in place.labels:
                        self.wanted[term.key, place.labels[term.key]] += count
            for term in self.facts.apart:
                if term.key in place.labels and term.means(other.namespace, labels):
                    self.avoided.add((term.key, place.labels[term.key]))

    def refusal(self, node: str) -> str:
        """Why the pod may not run there, in a few words; empty if it may."""
        place = self.places.get(node)
        if place is None:
            return "does not exist"
        labels = place.labels
        if self.kept_away and any((key, labels[key]) in self.kept_away for key in labels):
            return "has pods near that keep it away by their anti-affinity"
        for term in self.facts.apart:
            if (term.key, labels.get(term.key, "")) in self.avoided:
                return f"has pods in its {term.key} that the pod's anti-affinity avoids"
        return self._lonely(labels) or self._crowded(labels) or self._port_taken(place)

    def _lonely(self, labels: Mapping[str, str]) -> str:
        for term in self.facts.near:
            if term.key not in labels:
                return f"lacks label {term.key} of the pod's affinity"
        if all(self.wanted[term.key, labels[term.key]] > 0 for term in self.facts.near):
            return ""
        own = dict(self.facts.labels)
        if not self.wanted and all(term.means(self.facts.namespace, own) for term in self.facts.near):
            return ""  # the first of pods that want to be near each other
        return "has no pod near that the pod's affinity asks for"

    def _crowded(self, labels: Mapping[str, str]) -> str:
        own = dict(self.facts.labels)
        for rule, counts in zip(self.facts.spread, self.counts, strict=True):
            if rule.key not in labels:
                return f"lacks label {rule.key} of the pod's spread"
            least = min(counts.values(), default=0) if len(counts) >= rule.domains else 0
            itself = rule.selector is not None and all(one.holds(own) for one in rule.selector)
            if counts[labels[rule.key]] + itself - least > rule.max:
                return f"has too many such pods in its {rule.key} for maxSkew {rule.max}"
        return ""

    def _port_taken(self, place: PodsOnNode) -> str:
        for mine in self.facts.ports:
            for other in place.pods:
                if any(_clash(mine, theirs) for theirs in other.ports):
                    return f"has host port {mine[2]} in use"
        return ""


def _counts(rule: Spread, facts: PodFacts, demands: Demands, places: Iterable[PodsOnNode]) -> Counter[str]:
    """Pods that the rule counts, in each domain that the pod could run in; domains without one count 0."""
    keys = {other.key for other in facts.spread}
    found: Counter[str] = Counter()
    for place in places:
        if not keys <= place.labels.keys() or not _in_sight(rule, demands, place):
            continue
        found[place.labels[rule.key]] += 0
        for other, count in place.pods.items() if rule.selector else ():
            if not other.leaving and other.namespace == facts.namespace and _all_hold(rule.selector, other.labels):
                found[place.labels[rule.key]] += count
    return found


def _in_sight(rule: Spread, demands: Demands, place: PodsOnNode) -> bool:
    if rule.by_affinity:
        if any(place.labels.get(key) != value for key, value in demands.selector):
            return False
        if demands.own_affinity and not any(matches(one, place.labels) for one in demands.own_affinity):
            return False
    return not rule.by_taints or all(tolerated(taint, demands.tolerates) for taint in place.taints)


def _all_hold(selector: tuple[Requirement, ...] | None, labels: tuple[Pair, ...]) -> bool:
    named = dict(labels)
    return selector is not None and all(one.holds(named) for one in selector)


def _less(counts: Counter[T], one: T) -> None:
    counts[one] -= 1
    if counts[one] <= 0:
        del counts[one]


def _clash(one: HostPort, other: HostPort) -> bool:
    same = one[0] == other[0] and one[2] == other[2]
    return same and (one[1] == other[1] or EVERY_ADDRESS in (one[1], other[1]))
