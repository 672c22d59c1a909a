"""The book of estimates: where beliefs about remaining time come from. A policy cannot tell which book is open.

`Declared` believes the user. `Progress` believes what training has shown and, before that, the user and like jobs;
`Linear` is its plain sister. `Oracle` knows the truth, which only a simulator has. `Nothing` knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.core.estimates import Beliefs, Counts
from headway.core.job import Job
from headway.core.snapshot import Snapshot
from headway.estimates.declared import Declared, annotated, declared_beliefs
from headway.estimates.linear import Linear
from headway.estimates.models.scaling import plain_speed
from headway.estimates.progress import Progress

__all__ = ["Declared", "Linear", "Nothing", "Oracle", "Progress", "Truth", "declared_beliefs"]

Truth = Callable[[Snapshot], Beliefs]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No estimates at all; a policy that asks for one is told so. Also for replays, whose log has them."""

    def fold(self, snapshot: Snapshot) -> Nothing:  # noqa: ARG002  the book's protocol
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return snapshot


@dataclass(frozen=True, slots=True)
class Oracle:
    truth: Truth
    speed: Callable[[Job, Counts], float] = plain_speed

    def fold(self, snapshot: Snapshot) -> Oracle:  # noqa: ARG002  the truth needs no evidence
        return self

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return annotated(snapshot, lambda: self.truth(snapshot), self.speed)
