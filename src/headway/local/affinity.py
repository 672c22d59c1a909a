"""Which cores a replica is bound to where no control group limits it: those that others use least."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Sequence

from headway.local.shim import descendants

MOST_LOOKS = 5


class CoreLoads:
    """The cores that the replicas of a run are bound to, and how much of each they take."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[tuple[int, ...], int]] = {}
        self._offered: dict[str, tuple[int, ...]] = {}
        """All cores of the replica's node."""

    def take(self, replica: str, cpu: int, cores: Sequence[int]) -> tuple[int, ...]:
        """Enough of these cores for `cpu` thousandths of a core: a limit in whole cores, the least loaded first.

        A replica that has cores keeps as many of them as it needs.
        """
        own = self.cores(replica)
        self.give_back(replica)
        loads = self.loads()
        count = min(len(cores), max(1, math.ceil(cpu / 1000)))
        chosen = tuple(sorted(sorted(cores, key=lambda core: (core not in own, loads[core], core))[:count]))
        self._held[replica], self._offered[replica] = (chosen, cpu), tuple(cores)
        return chosen

    def change(self, replica: str, cpu: int) -> tuple[int, ...]:
        """The replica takes another amount: the cores that it has from now on; none if it is bound to none."""
        return self.take(replica, cpu, self._offered[replica]) if replica in self._held else ()

    def cores(self, replica: str) -> tuple[int, ...]:
        return self._held[replica][0] if replica in self._held else ()

    def give_back(self, replica: str) -> None:
        self._held.pop(replica, None)
        self._offered.pop(replica, None)

    def loads(self) -> Counter[int]:
        """Thousandths that are taken, by core."""
        loads: Counter[int] = Counter()
        for cores, cpu in self._held.values():
            for core in cores:
                loads[core] += math.ceil(cpu / len(cores))
        return loads


def bind(root: int, cores: Sequence[int]) -> None:
    """Binds every thread of every process below `root` to these cores.

    A thread that starts meanwhile has the cores of the one that started it, so it looks until it finds no new one.
    """
    bound: set[int] = set()
    for _ in range(MOST_LOOKS):
        found = {thread for pid in descendants(root) for thread in _threads(pid)}
        if found <= bound:
            return
        for thread in found:
            with contextlib.suppress(OSError):  # it has ended, or it is another user's
                os.sched_setaffinity(thread, cores)
        bound |= found


def _threads(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    return []
