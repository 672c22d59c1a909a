"""How fast a job trains now: a line through its reports since its speed last changed, in constant time per report.

Reports carry noise, and neighbours come and go. A report that is further off the line than noise explains is a suspect.
A single suspect is ignored. Three in a row on the same side mean that the speed has changed: a new line begins with
them, and the old speed is its prior. Older reports are forgotten slowly, so that the line follows a drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

MEMORY = 150.0
"""After this many further reports, an old report weighs a third."""
SUSPECT = 4.0
"""Standard deviations from which a report is a suspect."""
SUSPECTS = 3
CHANGED_SPREAD = 0.3
"""How much a changed speed may differ from the speed before, as a share."""
NOISE_STEPS = 0.5
NOISE_SHARE = 0.02
"""Min noise of one report: half a step plus this share of the steps between two reports."""
_KEEP = 1.0 - 1.0 / MEMORY


@dataclass(frozen=True, slots=True)
class Guess:
    """Seconds per step, and its standard deviation as a share."""

    seconds: float
    spread: float

    def joined(self, other: Guess) -> Guess:
        """The mean of two guesses, weighted by how sure each is."""
        one, two = 1.0 / self.spread**2, 1.0 / other.spread**2
        log = (one * math.log(self.seconds) + two * math.log(other.seconds)) / (one + two)
        return Guess(math.exp(log), 1.0 / math.sqrt(one + two))

    def vaguer(self, spread: float) -> Guess:
        return Guess(self.seconds, math.hypot(self.spread, spread))


@dataclass(frozen=True, slots=True)
class Pace:
    """Running means and centred sums of (seconds, steps)."""

    at: float
    step: float
    count: float = 1.0
    seconds2: float = 0.0
    both: float = 0.0
    steps2: float = 0.0
    gap: float = 0.0
    """The usual number of seconds between reports."""
    began: float = 0.0
    last: float = 0.0
    prior: Guess | None = None
    suspects: tuple[tuple[float, float], ...] = ()

    @classmethod
    def beginning(cls, at: float, step: float, prior: Guess | None = None, gap: float = 0.0) -> Pace:
        """`gap`: the usual seconds between reports so far, where the job has reported before."""
        return cls(at, step, gap=gap, began=at, last=at, prior=prior)

    def add(self, at: float, step: float) -> Pace:
        """The line after one more report. The caller makes sure that times do not go back."""
        if self.count >= 4.0:
            off, noise = self._off(at, step)
            if abs(off) > SUSPECT * noise:
                return self._suspect(at, step, off)
        return self.with_report(at, step)

    def guess(self) -> Guess | None:
        """Seconds per step; None before there is anything to measure."""
        line = self.shown()
        if line is None:
            return self.prior
        return line if self.prior is None else line.joined(self.prior)

    def with_report(self, at: float, step: float) -> Pace:
        count = _KEEP * self.count + 1.0
        from_at, from_step = at - self.at, step - self.step
        share = 1.0 / count
        weight = 1.0 - share
        gap = at - self.last
        return Pace(
            self.at + share * from_at, self.step + share * from_step, count,
            _KEEP * self.seconds2 + weight * from_at * from_at, _KEEP * self.both + weight * from_at * from_step,
            _KEEP * self.steps2 + weight * from_step * from_step, gap if self.gap <= 0 else 0.8 * self.gap + 0.2 * gap,
            self.began, at, self.prior, (),
        )  # fmt: skip

    def _noise(self, slope: float) -> float:
        """Standard deviation of one report from the line, never below the min noise."""
        least = NOISE_STEPS + NOISE_SHARE * slope * self.gap
        residual = max(0.0, self.steps2 - slope * self.both)
        return math.sqrt((residual + 3.0 * least * least) / max(1.0, self.count + 1.0))

    def _off(self, at: float, step: float) -> tuple[float, float]:
        if self.seconds2 <= 0:
            return 0.0, 1.0
        slope = self.both / self.seconds2
        noise = self._noise(slope)
        ahead = at - self.at
        off = step - (self.step + slope * ahead)
        return off, noise * math.sqrt(1.0 + 1.0 / self.count + ahead * ahead / self.seconds2)

    def _suspect(self, at: float, step: float, off: float) -> Pace:
        same = not self.suspects or (self._off(*self.suspects[-1])[0] > 0) == (off > 0)
        suspects = (*self.suspects, (at, step)) if same else ((at, step),)
        if len(suspects) < SUSPECTS:
            return replace(self, suspects=suspects, last=at)
        guess = self.guess()
        fresh = Pace.beginning(*suspects[0], None if guess is None else Guess(guess.seconds, CHANGED_SPREAD), self.gap)
        for one in suspects[1:]:
            fresh = fresh.with_report(*one)
        return fresh

    def shown(self) -> Guess | None:
        """By its own reports alone."""
        if self.seconds2 <= 0 or self.both <= 0:
            return None
        slope = self.both / self.seconds2
        sure = slope * math.sqrt(self.seconds2)
        if not (0.0 < sure < math.inf):  # times too close together for numbers
            return None
        spread = self._noise(slope) / sure
        return Guess(1.0 / slope, max(1e-4, spread))
