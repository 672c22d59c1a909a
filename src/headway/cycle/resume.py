"""Resuming a run that was interrupted: its recorded plans, and what its book has learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headway.core.plan import Plan
from headway.core.policy import Policy, is_gangless
from headway.core.snapshot import Snapshot
from headway.estimates.progress import ProgressBook


def resume(policy: Policy, plans: Sequence[Plan]) -> Policy:
    """A policy whose first answers are the recorded plans; then the given policy decides. For virtual time."""
    if not plans:
        return policy
    recorded: Iterator[Plan] = iter(plans)

    def resumed(snapshot: Snapshot) -> Plan:
        plan = next(recorded, None)
        return policy(snapshot) if plan is None else plan

    resumed.gangless = is_gangless(policy)  # type: ignore[attr-defined]
    return resumed


def remembered(past: Iterable[Snapshot]) -> ProgressBook:
    """A book that has learned from the finished jobs of an earlier run. Unfinished jobs report again."""
    book = ProgressBook()
    for snapshot in past:
        book = book.fold(snapshot)
    return ProgressBook(history=book.history)
