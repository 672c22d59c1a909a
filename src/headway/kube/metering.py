"""How much cpu and memory the jobs really use: asked from time to time, added up by job, put on the board.

A job is measured if every one of its replicas is: a part of a gang would look as if the gang needed less.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from headway.core.gang import Phase
from headway.core.states import TRAINING
from headway.kube.api.usage import Measured, PodKey, PodUsage
from headway.kube.fence import Fence
from headway.kube.job.replica import PodReplica
from headway.kube.settings import Measure
from headway.kube.tracked import Tracked
from headway.kube.worker import ApiWorker

log = logging.getLogger("headway.kube")
EVERY_SECONDS = 15.0
"""Kubelets and the metrics API have new numbers about as often."""
TROUBLE_SECONDS = 150.0
"""How long it waits after it could measure nothing."""
MOST_NODES = 200
"""Nodes in one round. Where jobs run on more, each has its turn."""


@dataclass(slots=True)
class Meter:
    worker: ApiWorker
    how: Measure
    known: dict[PodKey, PodUsage] = field(default_factory=dict)
    """The last measurement of each pod that runs."""
    again: float = -math.inf
    asked: bool = False
    _told: str = ""
    _turn: int = 0

    def ask(self, jobs: Iterable[Tracked], now: float) -> None:
        """Begins to measure, if it is time and something runs."""
        if self.how is Measure.OFF or self.asked or now < self.again:
            return
        nodes = sorted({replica.node for job in jobs for replica in _running(job)})
        if not nodes:
            return
        first = self._turn % len(nodes)
        here = (nodes[first:] + nodes[:first])[:MOST_NODES]
        self.asked, self.again, self._turn = True, now + EVERY_SECONDS, first + len(here)
        self.worker.measure(self.how, here)

    def take(self, measured: Measured, jobs: Iterable[Tracked], fence: Fence, now: float) -> bool:
        """Takes the answer; returns whether a policy has something new to see."""
        self.asked = False
        if measured.why and measured.why != self._told:
            self._told = measured.why
            log.warning("what jobs use is not measured everywhere: %s", measured.why)
        if not measured.pods:
            self.again = now + TROUBLE_SECONDS if measured.why else self.again
            return False
        self.known |= measured.pods
        present: set[PodKey] = set()
        for job in jobs:
            with fence.of(job, "take in what its pods use", counts=False):
                keys = [(job.meta.namespace, replica.name) for replica in _running(job)]
                present.update(keys)
                self._book(job, keys)
        self.known = {key: usage for key, usage in self.known.items() if key in present}
        return True

    def _book(self, job: Tracked, keys: list[PodKey]) -> None:
        if keys and all(key in self.known for key in keys):
            found = [self.known[key] for key in keys]
            job.usage = PodUsage(round(sum(one.cores for one in found), 3), sum(one.memory for one in found))
            job.board.uses(job.row, job.usage.cores)


def _running(job: Tracked) -> list[PodReplica]:
    """The pods of its present attempt that run; none unless it trains."""
    if job.ended is not None or job.state not in TRAINING:
        return []
    return [one for one in job.replicas.values() if one.phase is Phase.UP and one.attempt == job.memory.attempt]
