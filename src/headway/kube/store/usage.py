"""How much cpu and memory the jobs really use: asked from time to time, added up by job, put on the board.

A job is measured if every one of its replicas is: a part of a gang would look as if the gang needed less.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from headway.core.gang import Phase
from headway.core.states import TRAINING
from headway.kube.api.usage import Measured, PodKey, PodUsage
from headway.kube.gangs.gang import Gang
from headway.kube.pods.replica import Replica
from headway.kube.settings import Measure

log = logging.getLogger("headway.kube")
EVERY_SECONDS = 15.0
"""Kubelets and the metrics API have new numbers about as often."""
LOOK_SECONDS = 1.0
"""How often it looks whether something runs."""
TROUBLE_SECONDS = 150.0
"""How long it waits after it could measure nothing."""
MOST_NODES = 200
"""Nodes in one round. Where jobs run on more, each has its turn."""


@dataclass(slots=True)
class Meter:
    how: Measure
    known: dict[PodKey, PodUsage] = field(default_factory=dict)
    """The last measurement of each pod that runs."""
    again: float = -math.inf
    asked: bool = False
    _told: str = ""
    _turn: int = 0

    def ask(self, gangs: Iterable[Gang], now: float, read: Callable[[Measure, list[str]], None]) -> None:
        """Begins to measure, if it is time and something runs."""
        if self.how is Measure.OFF or self.asked or now < self.again:
            return
        nodes = sorted({pod.node for gang in gangs for pod in _running(gang)})
        self.again = now + (EVERY_SECONDS if nodes else LOOK_SECONDS)
        if not nodes:
            return
        first = self._turn % len(nodes)
        here = (nodes[first:] + nodes[:first])[:MOST_NODES]
        self.asked, self._turn = True, first + len(here)
        read(self.how, here)

    def take(self, measured: Measured, gangs: Iterable[Gang], now: float) -> Iterator[tuple[Gang, PodUsage]]:
        """Takes the answer: what each gang uses of which every replica is measured."""
        self.asked = False
        if measured.why and measured.why != self._told:
            self._told = measured.why
            log.warning("what jobs use is not measured everywhere: %s", measured.why)
        if not measured.pods:
            self.again = now + TROUBLE_SECONDS if measured.why else self.again
            return
        self.known |= measured.pods
        present: set[PodKey] = set()
        for gang in gangs:
            keys = [(gang.meta.namespace, pod.name) for pod in _running(gang)]
            present.update(keys)
            if keys and all(key in self.known for key in keys):
                found = [self.known[key] for key in keys]
                yield gang, PodUsage(round(sum(one.cores for one in found), 3), sum(one.memory for one in found))
        self.known = {key: usage for key, usage in self.known.items() if key in present}


def _running(gang: Gang) -> list[Replica]:
    """The pods of its present attempt that run; none unless it trains."""
    if gang.is_foreign or gang.state not in TRAINING:
        return []
    return [pod for pod in gang.pods.values() if pod.phase is Phase.UP and pod.attempt == gang.wanted.attempt]
