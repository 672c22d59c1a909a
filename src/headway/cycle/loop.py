"""Snapshot in, plan out: the same loop in virtual time, on this machine and on Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headway.core.check import Refusal, check
from headway.core.cluster import Cluster
from headway.core.job import JobId
from headway.core.plan import Plan
from headway.core.policy import Policy, is_gangless
from headway.core.snapshot import Snapshot
from headway.cycle.sound import PolicyError, name_of, raised, stalls, unsound


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
    """Calls the policy, then checks the plan. Decisions that break a rule are taken out; the others stay.

    Raises PolicyError where the policy raises or returns nonsense.
    """
    plan: Plan | None = None
    try:
        plan = policy(snapshot)
        refusals = check(snapshot, plan, gangless=is_gangless(policy))
    except PolicyError:
        raise
    except Exception as error:
        why = "" if plan is None else unsound(plan)
        raise (PolicyError(name_of(policy), why) if why else raised(name_of(policy), error)) from error
    if refusals:
        refused = {id(refusal.decision) for refusal in refusals}
        kept = tuple(decision for decision in plan.decisions if id(decision) not in refused)
        plan = Plan(kept, plan.until)
    return Decided(snapshot, plan, refusals)


def run(
    cluster: Cluster, policy: Policy, book: Book, observe: Observer = lambda _: None, safe: Policy | None = None
) -> None:
    """Runs cycles until the cluster has nothing left to decide. `observe` is called before a plan is applied.

    With a `safe` policy, that one decides the cycles in which the policy fails; a note says so. Without, PolicyError.
    With it, too, a book that fails learns nothing in that cycle.
    """
    guard = None if safe is None else Fallback(safe)
    cycle = decide if guard is None else guard.decide
    while (snapshot := cluster.next_snapshot()) is not None:
        book = book.fold(snapshot) if guard is None else guard.fold(book, snapshot)
        decided = cycle(policy, book.annotate(snapshot))
        observe(decided)
        cluster.apply(decided.plan)


ABOUT_THE_POLICY = JobId("--policy")
"""Notes under this name, which no job can have, are about the policy."""


class Fallback:
    """Decides as `decide` does, and by a safe policy in the cycles in which the policy fails.

    What it remembers is only what it has told: a log of such a run is decided again alike.
    """

    def __init__(self, safe: Policy) -> None:
        self._safe = safe
        self._told: set[str] = set()
        self._not_learnt: PolicyError | None = None

    def fold(self, book: Book, snapshot: Snapshot) -> Book:
        """The book after this snapshot. Where it fails on what a job reports, it stays as it was; a note says so."""
        try:
            return book.fold(snapshot)
        except Exception as error:  # noqa: BLE001  one report must not end all jobs
            self._not_learnt = raised("estimates", error)
            return book

    def decide(self, policy: Policy, snapshot: Snapshot) -> Decided:
        decided, failed = self._decide(policy, snapshot), self._not_learnt
        if failed is None:
            return decided
        self._not_learnt = None
        return self._tell(decided, f"estimates: {failed.why}; nothing is learnt from these reports", failed.place)

    def _decide(self, policy: Policy, snapshot: Snapshot) -> Decided:
        try:
            decided = decide(policy, snapshot)
        except PolicyError as error:
            return self._tell(
                decide(self._safe, snapshot), f"{error.policy}: {error.why}; first-fit decides", error.place
            )
        if not decided.plan.decisions and not snapshot.placements:
            why = stalls(snapshot, decided.plan, self._safe)
            return self._tell(decided, why, "stalls") if why else decided
        return decided

    def _tell(self, decided: Decided, sentence: str, place: str) -> Decided:
        """Adds the sentence to the notes, once for each place."""
        if place in self._told:
            return decided
        self._told.add(place)
        snapshot = decided.snapshot
        notes = (*snapshot.notes, (ABOUT_THE_POLICY, sentence))
        return decided._replace(snapshot=Snapshot.of({**snapshot.__dict__, "notes": notes}))
