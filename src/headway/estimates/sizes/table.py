"""Sizes of a job of one role as a table: what follows from how it scales.

Most jobs have one role. Their sizes are plain numbers, and a book of estimates tells the speeds of all of them at once.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from headway.core.node import FloatArray
from headway.core.scaling import Scaling, SizeSpan

FURTHER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of further replicas that are tried: the first beyond a node may cost speed that the fourth brings back."""
LONGEST_PATH = 48
FASTER = 1.0 + 1e-6
SAME = 1.0 - 1e-6
_BEYOND = (0.0,) * FURTHER[-1]


class SizeTable:
    """All by number of replicas, from none to the most."""

    __slots__ = ("_columns", "_padded", "_path", "apart", "fastest_above", "span", "speeds")

    def __init__(self, scaling: Scaling, span: SizeSpan) -> None:
        self.span = span
        speeds = scaling.speeds[: span.max + 1]
        if not (math.isfinite(sum(speeds)) and min(speeds) >= 0.0):
            speeds = tuple(map(usable, speeds))
        self.speeds = speeds
        """In the best place, relative to the requested size; 0 where the estimate is no usable number."""
        self.apart = scaling.apart if 0.0 < scaling.apart <= 1.0 else 1.0
        """The factor where replicas that fit on one node are on several."""
        self.fastest_above = tuple(accumulate(reversed(speeds), max, initial=0.0))[-2::-1]
        """The highest speed of any larger size."""
        self._padded = speeds + _BEYOND
        self._path: tuple[int, ...] | None = None
        self._columns: tuple[npt.NDArray[np.int64], FloatArray] | None = None

    @property
    def path(self) -> tuple[int, ...]:
        """Sizes from the min on, each faster than all before it. Computed when it is first asked for."""
        if self._path is None:
            self._path = path_of(self.speeds, self.span.min)
        return self._path

    @property
    def path_columns(self) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """The sizes on the path and their speeds, as columns."""
        if self._columns is None:
            path = self.path
            self._columns = np.array(path, np.int64), np.array([self.speeds[count] for count in path], np.float64)
        return self._columns

    def following(self, count: int) -> int:
        """The next larger size on the path; 0 where there is none."""
        path = self.path
        place = bisect_right(path, count)
        return path[place] if place < len(path) else 0

    def with_more(self, count: int) -> list[float]:
        """Speeds in the best place with each of `FURTHER` more replicas; 0 where that is beyond the most."""
        padded = self._padded
        return [padded[count + more] for more in FURTHER]

    def placed(self, count: int, nodes: int) -> float:
        """The speed of this many replicas on this many nodes."""
        speed = self.speeds[count]
        return speed * self.apart if nodes > 1 and count <= self.span.per_node else speed


def usable(speed: float) -> float:
    return speed if math.isfinite(speed) and speed > 0 else 0.0


def path_of(speeds: Sequence[float], least: int) -> tuple[int, ...]:
    """Sizes from the min on, each faster than all before it: always the one that gains most per replica."""
    now, more, size = np.array(speeds), np.array(FURTHER), np.arange(len(speeds))
    then: FloatArray = np.concatenate((now, _BEYOND))[size[:, None] + more]
    gains: FloatArray = np.where(then > now[:, None] * FASTER, (then - now[:, None]) / more, 0.0)
    best: FloatArray = gains.max(axis=1)
    option = (gains >= best[:, None] * SAME).argmax(axis=1)
    following = np.where(best > 0.0, size + more[option], 0).tolist()
    path = [least]
    while len(path) < LONGEST_PATH and following[path[-1]]:
        path.append(following[path[-1]])
    return tuple(path)
