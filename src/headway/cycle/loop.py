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
        """Waits (or jumps) to the next moment worth deciding; None when there will be none."""

    def apply(self, plan: Plan) -> None:
        """Begins it. What came of it is seen only in later snapshots."""


class Book(Protocol):
    """Turns progress into estimates. Pure: folding returns another book."""

    def fold(self, snapshot: Snapshot) -> Book: ...

    def annotate(self, snapshot: Snapshot) -> Snapshot: ...


class Decided(NamedTuple):
    """One cycle's outcome: the plan as it goes to the cluster, and what the check took out of it."""

    snapshot: Snapshot
    plan: Plan
    refusals: tuple[Refusal, ...]


Observer = Callable[[Decided], None]


def decide(policy: Policy, snapshot: Snapshot) -> Decided:
    """Calls the policy, then checks the plan. A decision that breaks a rule is taken out; the others stand."""
    plan = policy(snapshot)
    refusals = check(snapshot, plan, gangless=is_gangless(policy))
    if refusals:
        refused = {id(refusal.decision) for refusal in refusals}
        kept = tuple(decision for decision in plan.decisions if id(decision) not in refused)
        plan = Plan(kept, plan.until)
    return Decided(snapshot, plan, refusals)


def run(cluster: Cluster, policy: Policy, book: Book, observe: Observer = lambda _: None) -> None:
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot)
        decided = decide(policy, book.annotate(snapshot))
        observe(decided)
        cluster.apply(decided.plan)
