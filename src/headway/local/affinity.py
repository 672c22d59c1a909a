"""Which cores a replica is bound to where no control group limits it: those that others use least."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


class CoreLoads:
    """The cores that the replicas of a run are bound to, and how much of each they take."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[tuple[int, ...], int]] = {}

    def take(self, replica: str, cpu: int, cores: Sequence[int]) -> tuple[int, ...]:
        """Enough of these cores for `cpu` thousandths of a core: a limit in whole cores, the least loaded first."""
        self.give_back(replica)
        loads = self.loads()
        count = min(len(cores), max(1, math.ceil(cpu / 1000)))
        chosen = tuple(sorted(sorted(cores, key=lambda core: (loads[core], core))[:count]))
        self._held[replica] = (chosen, cpu)
        return chosen

    def change(self, replica: str, cpu: int) -> None:
        """The replica takes another amount of the same cores."""
        if replica in self._held:
            self._held[replica] = (self._held[replica][0], cpu)

    def give_back(self, replica: str) -> None:
        self._held.pop(replica, None)

    def loads(self) -> Counter[int]:
        """Thousandths that are taken, by core."""
        loads: Counter[int] = Counter()
        for cores, cpu in self._held.values():
            for core in cores:
                loads[core] += math.ceil(cpu / len(cores))
        return loads
