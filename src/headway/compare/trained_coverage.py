"""Looks on while a trained policy is asked in a run, and says at the end where it never decided, and why.

Its figures would be those of headway, and be taken for its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.policies.learned import NO_CHOICE, KeptOut, Learned
from headway.policies.wrappers.queues import Queued
from headway.policies.wrappers.rounds import InRounds


class TrainedCoverage:
    """Stands in place of the trained policy for one run, and decides the same."""

    def __init__(self, policy: Learned) -> None:
        self.policy = policy
        self.asked = 0
        self.decided = 0
        self._times: dict[str, int] = {}
        """How often it was kept out, by cause."""
        self._first: dict[str, str] = {}

    def __call__(self, snapshot: Snapshot) -> Plan:
        chosen, kept_out = self.policy.judged(snapshot)
        self._count(kept_out)
        return chosen(snapshot)

    def told(self) -> dict[str, Any]:
        """Ready for JSON. The reason is the one that held most often where there was a choice, as it was at first."""
        why = ""
        if not self.decided and self._times:
            cause = max(self._times, key=lambda cause: (cause != NO_CHOICE, self._times[cause]))
            often = f" ({self._times[cause]} cases)" if len(self._times) > 1 else ""
            why = f"{self._first[cause]}{often}"
        return {"asked": self.asked, "decided": self.decided, "why": why}

    def _count(self, kept_out: KeptOut | None) -> None:
        self.asked += 1
        if kept_out is None:
            self.decided += 1
            return
        self._times[kept_out.cause] = self._times.get(kept_out.cause, 0) + 1
        self._first.setdefault(kept_out.cause, kept_out.sentence)


def witnessed(policy: Policy) -> tuple[Policy, TrainedCoverage | None]:
    """The same policy with a witness at the trained policy in it; None where there is none."""
    if isinstance(policy, Queued | InRounds):
        inner, witness = witnessed(policy.policy)
        return replace(policy, policy=inner), witness
    if isinstance(policy, Learned):
        witness = TrainedCoverage(policy)
        return witness, witness
    return policy, None


def kept_out(policy: str, told: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where the trained policy never decided in some of these runs, one per seed; empty where it did."""
    never = [one for one in told if one["asked"] and not one["decided"]]
    if not never:
        return ""
    seeds = f"with {len(never)} of {len(told)} seeds " if len(never) < len(told) else ""
    asked, why = never[0]["asked"], never[0]["why"]
    return f"{policy}: {seeds}the trained policy never decided, headway did in {asked} of {asked} cases: {why}"
