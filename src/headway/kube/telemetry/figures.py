"""What is told of a scheduler while it works, and to whom: the gangs of a cluster, counted, and what happens. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.core.node import Nodes
from headway.core.quantity import CPU, GPU
from headway.kube.gangs.gang import Gang

SHOWN = {CPU: 1000.0, GPU: 1.0}
"""Kinds of which is told what queues hold, and how many make one."""
MAX_QUEUES = 200
"""More are told as one: tenants may name queues where no rules are given."""
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class Figures:
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By queue and state."""
    pending: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By queue and reason: jobs that wait."""
    held: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By queue and resource: cores and GPUs that jobs hold."""
    used: Mapping[str, float] = field(default_factory=dict)
    """By queue: cores that jobs really use, as last measured."""
    waited: Mapping[str, float] = field(default_factory=dict)
    """By queue: the seconds that the job has waited which has waited longest."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """By resource: what the ready nodes have for jobs."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """By queue: cores that those jobs hold of which use is measured."""
    frozen: int = 0
    """Jobs that Headway cannot judge: their pods stay, nothing is decided."""


def figures(gangs: Iterable[Gang], now: float, nodes: Nodes) -> Figures:
    jobs, pending = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    held, waited = defaultdict[tuple[str, str], float](float), dict[str, float]()
    used, measured = defaultdict[str, float](float), defaultdict[str, float](float)
    frozen, queues = 0, set[str]()
    for gang in gangs:
        queue = gang.job.queue
        if queue not in queues and len(queues) >= MAX_QUEUES:
            queue = OTHERS
        queues.add(queue)
        jobs[queue, gang.state.name.lower()] += 1
        frozen += bool(gang.frozen.why)
        if gang.waits:
            pending[queue, gang.wanted.reason or "Unknown"] += 1
            since = gang.wanted.since if gang.wanted.attempt else gang.job.submit
            waited[queue] = max(waited.get(queue, 0.0), now - since)
        for share in gang.wanted.allocation or ():
            for kind, amount in share.amounts:
                if kind in SHOWN:
                    many = amount * len(share.nodes) / SHOWN[kind]
                    held[queue, kind] += many
                    if kind == CPU and gang.usage is not None:
                        measured[queue] += many
        if gang.usage is not None:
            used[queue] += gang.usage.cores
    return Figures(dict(jobs), dict(pending), dict(held), dict(used), waited, _capacity(nodes), dict(measured), frozen)


def _capacity(nodes: Nodes) -> dict[str, float]:
    here = [kind for kind in SHOWN if kind in nodes.kinds]
    ready = nodes.capacity[:, nodes.ready].sum(axis=1)
    return {kind: float(ready[nodes.kinds.index(kind)]) / SHOWN[kind] for kind in here}


class Watcher:
    """Hears of what happens, in the thread that decides. This one is not interested."""

    def cycle(self, seconds: float) -> None:
        """A snapshot was decided on, and its plan begun, in so many seconds."""

    def fault(self) -> None:
        """An error inside Headway froze a job for a while."""

    def changed(self, old: Gang, new: Gang, now: float) -> None:
        """A gang is in another state."""

    def predicted(self, uid: str, now: float, end: float) -> None:
        """When a running job is thought to be done."""

    def count(self, found: Figures) -> None:
        """What is there, a few seconds old at most."""


NOBODY = Watcher()
