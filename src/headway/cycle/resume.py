"""Going on with a run that was cut off: its plans, where the cluster itself is deterministic, and what was learnt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headway.core.plan import Plan
from headway.core.policy import Policy, is_gangless
from headway.core.snapshot import Snapshot
from headway.estimates.progress import ProgressBook


def resume(policy: Policy, plans: Sequence[Plan]) -> Policy:
    """The first cycles get the plans that were recorded, at no cost; then the policy decides."""
    if not plans:
        return policy
    recorded: Iterator[Plan] = iter(plans)

    def resumed(snapshot: Snapshot) -> Plan:
        plan = next(recorded, None)
        return policy(snapshot) if plan is None else plan

    resumed.gangless = is_gangless(policy)  # type: ignore[attr-defined]
    return resumed


def remembered(past: Iterable[Snapshot]) -> ProgressBook:
    """A book that knows what jobs of an earlier run have shown, and nothing of those that had not finished: they report
    anew.
    """
    book = ProgressBook()
    for snapshot in past:
        book = book.fold(snapshot)
    return ProgressBook(history=book.history)
