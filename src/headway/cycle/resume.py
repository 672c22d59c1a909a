"""Going on with a run that was cut off, where the cluster itself is deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.cycle.loop import Policy


def resume(policy: Policy, plans: Sequence[Plan]) -> Policy:
    """The first cycles get the plans that were recorded, at no cost; then the policy decides."""
    if not plans:
        return policy
    recorded: Iterator[Plan] = iter(plans)

    def resumed(snapshot: Snapshot) -> Plan:
        plan = next(recorded, None)
        return policy(snapshot) if plan is None else plan

    resumed.gangless = getattr(policy, "gangless", False)  # type: ignore[attr-defined]
    return resumed
