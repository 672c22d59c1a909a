"""Which values of a setting make sense. A policy writes `restart: Seconds = 30.0` in place of `float`.

Nothing is guessed from a name: a number that may be negative says so, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

FORMER_NAMES = {
    **{f"latest_{name}": f"tail_{name}" for name in ("share", "near", "far", "stay", "claim")},
    "calm": "cool_down_share",
}
"""Settings that had another name. Trained files that have it are read; who writes it is told the new one."""


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends are in it; with `above` the lower one is not."""

    min: float
    max: float = math.inf
    above: bool = False

    def refusal(self, value: float) -> str:
        """Why the value is refused, in words that follow its name; empty where it is taken."""
        if math.isnan(value):
            return "give a number"
        if self.min <= value <= self.max and not (self.above and value == self.min):
            return ""
        if self.above:
            return f"must be above {self.min:g}"
        if math.isinf(self.max):
            return f"must be {self.min:g} or more"
        return f"must be from {self.min:g} to {self.max:g}"


Seconds = Annotated[float, Range(0.0)]
"""Also replica-seconds."""
Share = Annotated[float, Range(0.0, 1.0)]
"""Of the cluster, or of another whole; also a chance."""
Factor = Annotated[float, Range(0.0)]
"""Also a weight, a margin, or a share of something that may be exceeded."""
Count = Annotated[int, Range(0)]
Highest = Annotated[float, Range(0.0, above=True)]
"""Others are divided by it."""
Priority = Annotated[float, Range(-math.inf)]
"""May be negative: behind those who have none."""
