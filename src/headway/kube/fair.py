"""Which jobs are gone on with in a turn of the loop: namespaces take turns, so that no tenant fills it alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, zip_longest

from headway.kube.tracked import Tracked

MOST_PER_TURN = 128


def in_turn(due: Sequence[Tracked], most: int = MOST_PER_TURN) -> Sequence[Tracked]:
    """All of them if they are few. Else this many, one of each namespace after the other; of a namespace those that
    have waited longest.
    """
    if len(due) <= most:
        return due
    by_namespace: dict[str, list[Tracked]] = {}
    for job in sorted(due, key=lambda job: job.attention.taken):
        by_namespace.setdefault(job.meta.namespace, []).append(job)
    rounds = chain.from_iterable(zip_longest(*by_namespace.values()))
    return list(islice((job for job in rounds if job is not None), most))
