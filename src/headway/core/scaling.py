"""How fast a job of one role would be at all its sizes, as the book believes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headway.core.job import Job, worker_role
from headway.core.node import Nodes


def workers_per_node(job: Job, nodes: Nodes) -> int:
    """How many workers fit on the largest empty node; 0 where they request nothing that nodes have."""
    request = job.roles[worker_role(job.roles)].request
    known: int | None = nodes.memo.get((workers_per_node, request))
    if known is None:
        asks = [(nodes.kinds.index(kind), amount) for kind, amount in request if amount and kind in nodes.kinds]
        known = nodes.keep((workers_per_node, request), nodes.per_node(asks))
    return known


class SizeSpan(NamedTuple):
    """The sizes of a job of one role that are asked about."""

    min: int
    max: int
    per_node: int
    """How many replicas the largest empty node takes; 0 where they ask for nothing."""


class Scaling:
    """How fast a job of one role would be at each size, relative to the requested size.

    A book hands out the same object for as long as it believes the same, so that what follows from it is computed once.
    """

    __slots__ = ("__weakref__", "apart", "speeds")

    def __init__(self, speeds: Iterable[float], apart: float = 1.0) -> None:
        self.speeds = tuple(speeds)
        """By number of replicas, from none to the most, each in its best place; 0 below the min."""
        self.apart = apart
        """The factor in speed where replicas that fit on one node are on several."""

    @classmethod
    def asked_one_by_one(cls, speed: Callable[[int], float], span: SizeSpan) -> Scaling:
        """From speeds of single sizes. Being apart costs as much per replica as outgrowing a node."""
        fits, upto = span.per_node, span.max
        speeds = [0.0] * span.min + [float(speed(count)) for count in range(span.min, upto + 1)]
        return cls(speeds, step_at(speeds[fits : fits + 2], fits) if span.min <= fits < upto else 1.0)


def step_at(speeds: Sequence[float], fits: int) -> float:
    """The factor per replica between the speed of as many as fit on a node and that of one more; at most 1."""
    before, after = speeds
    return min(1.0, after / before * fits / (fits + 1)) if before > 0 and fits > 0 else 1.0


ScalingSource = Callable[[int, SizeSpan], Scaling]
"""Row and sizes to speeds."""
ScalingsSource = Callable[[Sequence[int], Sequence[SizeSpan]], list[Scaling]]
"""The same for several jobs."""
