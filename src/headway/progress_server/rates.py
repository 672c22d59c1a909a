"""How often something may be done: so many times at once, then so many times a second, for each key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

MOST_KEYS = 20_000


@dataclass(slots=True)
class RateLimit:
    """Example: burst 200, 50 a second: of 1,000 at once 200 are allowed, then one each 20 milliseconds."""

    burst: float
    per_second: float
    _spent: OrderedDict[Hashable, tuple[float, float]] = field(default_factory=OrderedDict)
    """What each key has spent, and when that was counted. The keys used longest ago are forgotten first."""

    def allows(self, key: Hashable, now: float) -> bool:
        spent, at = self._spent.pop(key, (0.0, now))
        spent = max(0.0, spent - (now - at) * self.per_second)
        allowed = spent + 1 <= self.burst
        self._spent[key] = (spent + allowed, now)
        while len(self._spent) > MOST_KEYS:
            self._spent.popitem(last=False)
        return allowed


@dataclass(slots=True)
class MessageBudget:
    """The messages of one replica in the current second, over all its connections."""

    max: int
    second: float = 0.0
    """When the current second began."""
    used: int = 0

    def is_spent(self, now: float) -> bool:
        if now - self.second >= 1.0:
            self.second, self.used = now, 0
        return self.used >= self.max
