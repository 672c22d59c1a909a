"""Where jobs run: nodes with several resources, and the immutable table of them that a snapshot carries.

A node keeps its number for as long as the cluster lives. A node that goes away stays in the table, not ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from headway.core.job import Amounts, Role
from headway.core.quantity import GPU
from headway.core.suits import NODE_NAME, matches, tolerated

IntArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Asks = tuple[tuple[int, int], ...]
"""What one replica asks for: number of the resource kind, amount above 0."""
T = TypeVar("T")
MOST_KEPT = 128
"""Answers that follow from the nodes alone; beyond this, all are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    capacity: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[str, ...] = ()
    """`slow` or `team=vision:NoExecute`. A role runs here only if it tolerates all of them."""
    domain: str = ""
    """The topology domain, such as a rack: replicas in one domain exchange data faster."""
    accelerator: str = ""
    ready: bool = True


class Types(NamedTuple):
    """The types of accelerators that nodes have."""

    names: tuple[str, ...]
    """In lower case and in order; empty where nodes have accelerators and no name for them."""
    of_node: IntArray
    """By node: the number of its type; -1 where it has no accelerators."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a role demands of a node beside free capacity."""

    selector: tuple[tuple[str, str], ...]
    tolerates: tuple[str, ...]
    accelerator: str
    affinity: tuple[str, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computed once: a constraint is looked up in every fit test."""
        object.__setattr__(self, "_hash", hash((self.selector, self.tolerates, self.accelerator, self.affinity)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, role: Role) -> Constraint:
        return cls(role.selector, role.tolerates, role.accelerator, role.affinity)

    def refusal(self, node: Node) -> str:
        """Why this node is not suitable, in a few words; empty where it is."""
        labels = dict(node.labels)
        for key, value in self.selector:
            if labels.get(key) != value:
                return f"lacks label {key}={value}"
        for taint in node.taints:
            if not tolerated(taint, self.tolerates):
                return f"taint {taint} is not tolerated"
        if self.affinity:
            labels[NODE_NAME] = node.name
            if not any(matches(selector, labels) for selector in self.affinity):
                return f"does not match {' or '.join(self.affinity)}"[:200]
        if self.accelerator and node.accelerator.lower() not in types_named(self.accelerator):
            return f"has {node.accelerator or 'no accelerator'}, not {self.accelerator}"
        return ""


def types_named(accelerator: str) -> tuple[str, ...]:
    """The types of accelerators that a role names, in lower case: `A100, V100` are two."""
    if "," not in accelerator:
        return (accelerator.lower(),)
    return tuple(name for part in accelerator.lower().split(",") if (name := part.strip()))


def _demands(node: Node) -> tuple[object, ...]:
    """What decides whether a role may run there at all."""
    return node.labels, node.taints, node.accelerator, node.ready


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """All nodes as columns: `capacity` is (kinds, nodes), so that a fit test reads memory in order."""

    nodes: tuple[Node, ...]
    kinds: tuple[str, ...]
    capacity: IntArray
    ready: BoolArray
    domain: IntArray
    index: dict[str, int]
    domains: int
    """How many topology domains there are; `domain` numbers them."""
    _masks: dict[Constraint, BoolArray] = field(default_factory=dict, repr=False)
    _all_suit: dict[Constraint, bool] = field(default_factory=dict, init=False, repr=False)
    _slots: dict[tuple[Asks, Constraint], int] = field(default_factory=dict, init=False, repr=False)
    _largest: list[int] = field(default_factory=list, init=False, repr=False)
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    """What was found to follow from the nodes alone. See `keep`."""

    @classmethod
    def of(cls, nodes: Iterable[Node], kinds: Sequence[str] = ()) -> Nodes:
        table = tuple(nodes)
        found = {kind for node in table for kind, _ in node.capacity}
        names = tuple(dict.fromkeys([*kinds, *sorted(found)]))
        capacity = np.zeros((len(names), len(table)), np.int32)
        for number, node in enumerate(table):
            for kind, amount in node.capacity:
                capacity[names.index(kind), number] = amount
        domains = {name: i for i, name in enumerate(dict.fromkeys(node.domain for node in table))}
        domain = np.array([domains[node.domain] for node in table], np.int32)
        ready = np.array([node.ready for node in table], np.bool_)
        for column in (capacity, domain, ready):
            column.flags.writeable = False
        return cls(table, names, capacity, ready, domain, {n.name: i for i, n in enumerate(table)}, len(domains))

    def replaced(self, changes: Mapping[int, Node]) -> Nodes:
        """The same nodes with these, by number, in place of the old ones. Costs what changed, not what exists.

        Names stay. Where a node is in another domain or has a kind that the table lacks, the whole is made anew.
        """
        table = list(self.nodes)
        for number, node in changes.items():
            table[number] = node
        old = [self.nodes[number] for number in changes]
        kinds = {kind for node in changes.values() for kind, _ in node.capacity}
        if not kinds <= set(self.kinds) or any(
            one.name != two.name or one.domain != two.domain for one, two in zip(old, changes.values(), strict=True)
        ):
            return Nodes.of(table, self.kinds)
        capacity, ready = self.capacity.copy(), self.ready.copy()
        for number, node in changes.items():
            capacity[:, number] = 0
            for kind, amount in node.capacity:
                capacity[self.kinds.index(kind), number] = amount
            ready[number] = node.ready
        for column in (capacity, ready):
            column.flags.writeable = False
        same = all(_demands(one) == _demands(two) for one, two in zip(old, changes.values(), strict=True))
        masks = self._masks if same else {}
        return Nodes(tuple(table), self.kinds, capacity, ready, self.domain, self.index, self.domains, masks)

    def __len__(self) -> int:
        return len(self.nodes)

    def mask(self, constraint: Constraint) -> BoolArray:
        """The nodes on which a role may run at all. Kept, because constraints are few and looked up often."""
        mask = self._masks.get(constraint)
        if mask is None:
            allowed = [node.ready and not constraint.refusal(node) for node in self.nodes]
            mask = np.array(allowed, np.bool_)
            mask.flags.writeable = False
            self._masks[constraint] = mask
        return mask

    def all_suit(self, constraint: Constraint) -> bool:
        """Whether a role may run on every node. Then fit tests need no mask."""
        all_suit = self._all_suit.get(constraint)
        if all_suit is None:
            all_suit = self._all_suit[constraint] = bool(self.mask(constraint).all())
        return all_suit

    def slots(self, asks: Asks, constraint: Constraint) -> int:
        """How many replicas that ask for this all nodes take together while they are empty. Kept, like masks."""
        slots = self._slots.get((asks, constraint))
        if slots is None:
            each = np.min([self.capacity[kind] // amount for kind, amount in asks], axis=0)
            slots = self._slots[asks, constraint] = int(each[self.mask(constraint)].sum())
        return slots

    def largest(self, kind: int) -> int:
        """What the node with most of this kind has. Kept, like masks."""
        if not self._largest:
            self._largest.extend(self.capacity.max(axis=1, initial=0).tolist())
        return self._largest[kind]

    def per_node(self, asks: Sequence[tuple[int, int]]) -> int:
        """How many replicas that ask for this the largest empty node takes, at least one; 0 where they ask nothing."""
        return max(1, min(self.largest(kind) // amount for kind, amount in asks)) if asks else 0

    def keep(self, key: object, value: T) -> T:
        """Remembers what follows from the nodes alone. Nodes may stay the same for weeks of jobs, so it is bounded."""
        if len(self.memo) >= MOST_KEPT:
            self.memo.clear()
        self.memo[key] = value
        return value

    def one(self, constraint: Constraint) -> Constraint:
        """The same object for equal constraints: a lookup then compares no fields."""
        known: Constraint = self.memo.get(constraint) or self.keep(constraint, constraint)
        return known

    @property
    def types(self) -> Types:
        """The types of accelerators. Kept, because policies ask in every cycle."""
        known: Types | None = self.memo.get(Types)
        if known is None:
            has = self.capacity[self.kinds.index(GPU)] > 0 if GPU in self.kinds else np.zeros(len(self), np.bool_)
            names = [node.accelerator.lower() for node in self.nodes]
            found = tuple(sorted({name for name, some in zip(names, has, strict=True) if some}))
            numbers = {name: number for number, name in enumerate(found)}
            of_node = [numbers[name] if some else -1 for name, some in zip(names, has, strict=True)]
            known = self.keep(Types, Types(found, np.array(of_node, np.int32)))
        return known

    def total(self) -> FloatArray:
        """What all ready nodes have together, in the order of `kinds`."""
        total: FloatArray | None = self.memo.get("total")
        if total is None:
            total = self.keep("total", self.capacity[:, self.ready].sum(axis=1).astype(np.float64))
            total.flags.writeable = False
        return total

    def vector(self, amounts: Amounts) -> IntArray | None:
        """The amounts in the order of `kinds`; None where a kind is asked for that no node has."""
        vector = np.zeros(len(self.kinds), np.int32)
        for kind, amount in amounts:
            if kind in self.kinds:
                vector[self.kinds.index(kind)] = amount
            elif amount:
                return None
        return vector
