"""What a cluster is: it yields snapshots and takes plans. Virtual time, this machine and Kubernetes are clusters."""

from __future__ import annotations

from typing import Protocol

from headway.core.plan import Plan
from headway.core.snapshot import Snapshot


class Cluster(Protocol):
    """Anything that yields snapshots and takes plans."""

    def next_snapshot(self) -> Snapshot | None:
        """Waits (virtual time jumps) until there is something to decide; None when all is done."""

    def apply(self, plan: Plan) -> None:
        """Begins to carry out the plan. Later snapshots show what came of it."""
