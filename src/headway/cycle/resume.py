"""Resuming a simulation that was interrupted: its recorded plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.core.plan import Plan
from headway.core.policy import Policy, is_gangless
from headway.core.snapshot import Snapshot


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
