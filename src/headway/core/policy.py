"""What a policy is: a pure function from a snapshot to a plan. What else it may offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from headway.core.plan import Plan
from headway.core.snapshot import Snapshot

Policy = Callable[[Snapshot], Plan]
"""A pure function. A policy that starts parts of gangs has an attribute `gangless = True`; one that is not pure, as it
goes by what it decided before, `remembers = True`.
"""


@runtime_checkable
class Explains(Protocol):
    """A policy that can say more about a job than why it waits: its score, its size, whether it moves."""

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """By topic, ready for JSON; empty where there is nothing to say about this job.

        A value that is a text is shown as it is; a mapping with a `sentence` shows that sentence.
        """


def is_gangless(policy: Policy) -> bool:
    """Whether the policy may start parts of gangs."""
    return bool(getattr(policy, "gangless", False))


def does_remember(policy: Policy) -> bool:
    """Whether the policy goes by more than the snapshot, so that a run cannot go on from its log."""
    return bool(getattr(policy, "remembers", False))


def explain_with(policy: Policy, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
    """What the policy says about this job; nothing where it does not explain."""
    return policy.explain(snapshot, row) if isinstance(policy, Explains) else {}


class Around:
    """A policy around another: what that one may do, remembers and says of a job holds for both."""

    __slots__ = ()
    policy: Policy

    @property
    def gangless(self) -> bool:
        return is_gangless(self.policy)

    @property
    def remembers(self) -> bool:
        return does_remember(self.policy)

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        return explain_with(self.policy, snapshot, row)
