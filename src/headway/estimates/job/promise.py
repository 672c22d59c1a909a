"""What a job's reports promised, and whether it kept that.

Example: a script hurries to 99 % and stays there. Each of its reports says "done in a minute". An hour later it has
promised that sixty times. Each report of a job that is late is a strike (`doubt`), so that soon it is not believed.

A promise is compared with what came of it only while the job stays where it is: another size has another speed.
`UserReliability` is what the promises of a user's earlier jobs were worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TOLERANCE = 0.15
"""A job is late only by what exceeds this share of its time here: speeds vary."""
MEMORY = 20.0
"""After this many further jobs, an old job weighs a third."""
HONEST = math.log(1.5)
"""Users whose jobs take less than 1.5 times what they promise are believed."""
MOST = math.log(100.0)
"""One job weighs no more than this."""
LEAST_SECONDS = 30.0
"""A promise that was tested for a shorter time says nothing of its user."""


@dataclass(frozen=True, slots=True)
class Promise:
    trained: float
    """Seconds that the job had trained when it was made."""
    end: float
    """Seconds of training after which the job would be done."""


@dataclass(frozen=True, slots=True)
class PromisedEnd:
    """The promises of one job since it is where it is: the first, and the two that were kept last."""

    first: Promise
    older: Promise
    newer: Promise

    @classmethod
    def beginning(cls, trained: float, left: float) -> PromisedEnd:
        promise = Promise(trained, trained + left)
        return cls(promise, promise, promise)

    def renewed(self, trained: float, left: float) -> PromisedEnd:
        """After another report. A promise is kept each time that the age of the last one has doubled."""
        began = self.first.trained
        if trained <= self.newer.trained or trained - began < 2.0 * (self.newer.trained - began):
            return self
        return PromisedEnd(self.first, self.newer, Promise(trained, trained + left))

    def late(self, trained: float) -> bool:
        """Whether the job should have been done by now, by what it promised when its time here was a third of this."""
        return trained > self.older.end + TOLERANCE * (trained - self.first.trained)

    def stretch(self, trained: float) -> float | None:
        """How many times longer the job took than it promised at first, now that it is done; None if untested."""
        took, promised = trained - self.first.trained, self.first.end - self.first.trained
        if took < LEAST_SECONDS:
            return None
        return took / max(promised, LEAST_SECONDS)


@dataclass(frozen=True, slots=True)
class UserReliability:
    """How many times longer a user's jobs take than they promise: the mean of the logarithm."""

    count: float = 0.0
    mean: float = 0.0

    def add(self, stretch: float) -> UserReliability:
        count = (1.0 - 1.0 / MEMORY) * self.count + 1.0
        off = min(max(math.log(stretch), -MOST), MOST) - self.mean
        return UserReliability(count, self.mean + off / count)

    @property
    def broken(self) -> bool:
        """Whether the user's jobs took so much longer than they promised that the next ones are not believed."""
        return self.count > 0 and self.mean > HONEST


UNKNOWN = UserReliability()
