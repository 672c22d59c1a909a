"""What stands around a policy in one run: rounds, and queues around them. Any policy can be put behind the same."""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.policy import Policy
from headway.policies.wrappers.queues import with_queues
from headway.policies.wrappers.quota import Queue
from headway.policies.wrappers.rounds import in_rounds


@dataclass(frozen=True, slots=True)
class Wrappers:
    """Plain data: it is sent to other processes."""

    queues: tuple[Queue, ...] = ()
    round: float = 0.0
    """Seconds; 0 means at every event."""

    def around(self, policy: Policy) -> Policy:
        return with_queues(in_rounds(policy, self.round), self.queues)


NO_WRAPPERS = Wrappers()
