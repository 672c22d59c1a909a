"""The replicas that can save, in a few characters: `["ps 0", "worker 0-7,9"]`. Pure.

Where they would be more than `MOST_RANGES` ranges, the smallest gaps are filled: while a large gang connects, half of
it has said that it can save, and the other half is about to. A checkpoint is never thought complete because of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from headway.core.gang import ReplicaKey

MOST_RANGES = 16
MOST_INDEX = 100_000


def written_savers(savers: Iterable[ReplicaKey]) -> list[str]:
    """For each role, ranges of indices."""
    by_role = itertools.groupby(sorted(savers), key=lambda saver: saver[0])
    return [f"{role} {_text([index for _, index in replicas])}" for role, replicas in by_role]


def read_savers(written: Iterable[str | ReplicaKey]) -> frozenset[ReplicaKey]:
    """The inverse of `written_savers`; an earlier version wrote pairs. Raises ValueError."""
    found: set[ReplicaKey] = set()
    for one in written:
        if isinstance(one, str):
            role, _, text = one.partition(" ")
            found |= {(role, index) for index in _indices(text)}
        else:
            found.add(one)
    return frozenset(found)


def _text(indices: list[int]) -> str:
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    gaps = sorted(range(1, len(ranges)), key=lambda at: ranges[at][0] - ranges[at - 1][1])
    filled = set(gaps[: len(ranges) - MOST_RANGES]) if len(ranges) > MOST_RANGES else set()
    joined: list[list[int]] = []
    for at, one in enumerate(ranges):
        if at in filled:
            joined[-1][1] = one[1]
        else:
            joined.append(list(one))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in joined)


def _indices(text: str) -> Iterable[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not 0 <= begin <= end <= MOST_INDEX:
            raise ValueError(f"savers: {part[:20]!r} is no range of replicas")
        yield from range(begin, end + 1)
