"""Snapshot in, plan out: the same loop in virtual time, on this machine and on Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headway.core.check import Refusal, check
from headway.core.plan import Plan
from headway.core.policy import Policy, is_gangless
from headway.core.snapshot import Snapshot


class Cluster(Protocol):
    """Anything that yields snapshots and takes plans."""

    def next_snapshot(self) -> Snapshot | None:
        """Waits (virtual time jumps) until there is something to decide; None when all is done."""

    def apply(self, plan: Plan) -> None:
        """Begins to carry out the plan. Later snapshots show what came of it."""


class Book(Protocol):
    """Turns progress into estimates. Pure: folding returns another book."""

    def fold(self, snapshot: Snapshot) -> Book:
        """The book after what this snapshot reports."""

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with this book's estimates."""


class Decided(NamedTuple):
    """The outcome of one cycle: the plan that goes to the cluster, and the decisions that were refused."""

    snapshot: Snapshot
    plan: Plan
    refusals: tuple[Refusal, ...]


Observer = Callable[[Decided], None]


def decide(policy: Policy, snapshot: Snapshot) -> Decided:
    """Calls the policy, then checks the plan. Decisions that break a rule are taken out; the others stay."""
    plan = policy(snapshot)
    refusals = check(snapshot, plan, gangless=is_gangless(policy))
    if refusals:
        refused = {id(refusal.decision) for refusal in refusals}
        kept = tuple(decision for decision in plan.decisions if id(decision) not in refused)
        plan = Plan(kept, plan.until)
    return Decided(snapshot, plan, refusals)


def run(cluster: Cluster, policy: Policy, book: Book, observe: Observer = lambda _: None) -> None:
    """Runs cycles until the cluster has nothing left to decide. `observe` is called before a plan is applied."""
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        decided = decide(policy, book.annotate(snapshot))
        observe(decided)
        cluster.apply(decided.plan)
