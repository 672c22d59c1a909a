"""Deciding in rounds, around any policy: only at multiples of a number of seconds, whatever happens in between.

Many published schedulers and their simulators work so. What happens inside a round is seen at its end: a job that
arrives waits for it, and what an ended job leaves is free until then.

A real clock wakes the policy some milliseconds late. So the end of a round lasts a moment: what is seen in it counts as
seen at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.policy import Around, Policy
from headway.core.snapshot import Snapshot

_ROUNDING = 1e-6
"""Seconds before the end of a round that still are the end."""
LATE, LATE_SHARE = 0.5, 0.05
"""After it: at most this many seconds, and this share of a round."""


@dataclass(frozen=True, slots=True)
class InRounds(Around):
    """A policy that is asked in rounds: itself a policy."""

    policy: Policy
    seconds: float

    def __call__(self, snapshot: Snapshot) -> Plan:
        now = snapshot.now
        late = (now + _ROUNDING) % self.seconds
        if late > 2 * _ROUNDING + min(LATE, LATE_SHARE * self.seconds):
            return Plan((), self._end_of_round(now))
        plan = self.policy(snapshot)
        if math.isinf(plan.until):
            return plan
        return Plan(plan.decisions, self._end_of_round(max(plan.until, now + 2 * _ROUNDING)))

    def _end_of_round(self, moment: float) -> float:
        return math.ceil((moment - _ROUNDING / 2) / self.seconds) * self.seconds


def in_rounds(policy: Policy, seconds: float) -> Policy:
    """0 means at every event, as without rounds."""
    if not 0 <= seconds < math.inf:
        raise UserError(f"a round of {seconds:g} seconds: it must be 0 or more")
    return InRounds(policy, seconds) if seconds else policy
