"""TrainingJobs that nobody has looked at yet: some are read in each turn of the loop, and namespaces take turns.

Example: a tenant has submitted ten thousand jobs, each with a large template of its own. To read them all takes many
seconds. Another tenant's only job is read in the turn after it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headway.kube.api.objects import Meta, TrainingJob

LEAST_PER_TURN, MOST_PER_TURN = 8, 128
TURN_SECONDS = 0.05


@dataclass(slots=True)
class Newcomers:
    clock: Callable[[], float] = time.monotonic
    waiting: dict[str, dict[str, TrainingJob]] = field(default_factory=dict)
    """By namespace, then by uid. The namespace whose turn is next comes first."""
    _taken: int = 0
    """In this turn."""
    _until: float = 0.0

    def put(self, found: TrainingJob) -> None:
        """A job that is waiting already keeps its place, and is read as it is now."""
        self.waiting.setdefault(found.metadata.namespace, {})[found.metadata.uid] = found

    def drop(self, meta: Meta) -> None:
        """It is gone."""
        jobs = self.waiting.get(meta.namespace, {})
        jobs.pop(meta.uid, None)
        if not jobs:
            self.waiting.pop(meta.namespace, None)

    def keep(self, uids: set[str]) -> None:
        """Others are gone."""
        for meta in [found.metadata for jobs in self.waiting.values() for found in jobs.values()]:
            if meta.uid not in uids:
                self.drop(meta)

    def new_turn(self) -> None:
        self._taken, self._until = 0, self.clock() + TURN_SECONDS

    def this_turn(self) -> Iterator[TrainingJob]:
        """One job of each namespace after the other, until this turn's time or number is used up."""
        while self.waiting and self._taken < (MOST_PER_TURN if self.clock() < self._until else LEAST_PER_TURN):
            self._taken += 1
            namespace = next(iter(self.waiting))
            jobs = self.waiting.pop(namespace)
            found = jobs.pop(next(iter(jobs)))
            if jobs:
                self.waiting[namespace] = jobs  # now the last
            yield found
