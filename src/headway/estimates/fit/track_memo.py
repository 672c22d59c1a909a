"""What was last computed of one job's reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.estimates.fit.measurements import Measurements
from headway.estimates.fit.pace import Guess, Pace
from headway.estimates.fit.prior import Prior
from headway.estimates.fit.speed import Observation, SpeedFit
from headway.estimates.fit.target import Length


@dataclass(slots=True)
class Memo:
    """The last answers, each with its input. An answer depends on its input only, so asking changes nothing."""

    guess_of: Pace | None = None
    guess: Guess | None = None
    all_of: Pace | None = None
    all_before: tuple[Observation, ...] = ()
    all: tuple[Observation, ...] = ()
    rounded_of: object = None
    rounded: tuple[Observation, ...] = ()
    measured: Measurements | None = None
    fit_of: object = None
    fit: SpeedFit | None = None
    curve_of: object = None
    steps: float = math.inf
    length_of: object = None
    length: Length | None = None

    def guess_by(self, pace: Pace) -> Guess | None:
        if self.guess_of is not pace:
            self.guess_of, self.guess = pace, pace.guess()
        return self.guess

    def fit_by(self, prior: Prior, exact: tuple[Observation, ...]) -> SpeedFit:
        """The speed model by these measurements, rounded."""
        if self.rounded_of is not exact:
            self.rounded_of, self.rounded = exact, tuple([one.rounded() for one in exact])
        measured = self.measured
        if measured is None or measured.form is not prior.form or measured.seen != self.rounded:
            self.measured = measured = Measurements(prior.form, self.rounded)
            self.fit = None
        if self.fit is None or self.fit_of != prior:
            self.fit_of, self.fit = prior, measured.fit(prior.coefficients, prior.spread, prior.across_spread)
        return self.fit
