"""The speed model of one job: its measurements, and a prior for what they do not tell.

What follows from the measurements alone is computed once. The prior changes more often, because other jobs of the same
model tell something new.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from headway.estimates.speed.least_squares import NormalEquations
from headway.estimates.speed.model import (
    ACROSS,
    PRIOR_SPREAD,
    Coefficients,
    Form,
    Observation,
    SpeedFit,
    at_several,
    gang_setting,
    terms,
)

FAR = 16
"""Workers. The share of the term that grows with a gang's workers is looked at with this many at least: what is next to
nothing in the step of two workers may be most of that of sixty.
"""
MEASURED_SPREAD = 0.02
"""Min spread of a measurement: a form is never exact."""


class Measurements:
    """What measurements say, before a prior is asked."""

    __slots__ = ("_at", "_equations", "_far", "_most", "_total", "_weights", "form", "seen")

    def __init__(self, form: Form, seen: Sequence[Observation]) -> None:
        self.form = form
        self.seen = tuple(seen)
        self._at = [terms(form, one.setting) for one in seen]
        self._weights = [1.0 / (one.spread**2 + MEASURED_SPREAD**2) for one in seen]
        self._total = sum(self._weights)
        self._equations: NormalEquations | None = None
        if not at_several(self.seen):
            return
        count = len(self._at[0])
        self._equations, self._most = NormalEquations(count), [0.0] * count
        """For each term, its largest share of a step, for a coefficient of 1."""
        for one, x in zip(seen, self._at, strict=True):
            sure = 1.0 / math.hypot(one.spread, MEASURED_SPREAD)
            weight = sure / one.seconds
            self._equations.add([weight * term for term in x], sure)
            self._most = [max(before, term / one.seconds) for before, term in zip(self._most, x, strict=True)]
        self._far = terms(Form.GANG, gang_setting(max(FAR, *(one.setting.layout.workers for one in seen)), 1))

    def fit(
        self, prior: Coefficients, prior_spread: float = PRIOR_SPREAD, across_spread: float | None = None
    ) -> SpeedFit:
        """The non-negative coefficients nearest to measurements and prior, each weighted by how sure it is.

        `across_spread`: of the exchange across nodes, where it is another one.
        """
        if not self.seen:
            return SpeedFit(self.form, prior, prior_spread)
        start = self._scaled(prior)
        if self._equations is None:
            return SpeedFit(self.form, start, prior_spread)
        # The prior constrains a term's share of the step, taken where that share is largest. A term that no measurement
        # shows stays near the prior, with the weight of a quarter of the compute term.
        most, equations = self._most, self._equations.copy()
        share = [max(term, 0.25 * most[0]) / prior_spread for term in most]
        if self.form is Form.GANG:
            share[ACROSS] *= prior_spread / (across_spread or prior_spread)
            share[-1] = self._growing_share(start) / prior_spread
        for number, weight in enumerate(share):
            equations.pull(number, weight, start[number])
        return SpeedFit(self.form, tuple(equations.solved(start)), prior_spread)

    def _scaled(self, prior: Coefficients) -> Coefficients:
        """The prior's shape, scaled to the measurements."""
        weighted = 0.0
        for one, x, weight in zip(self.seen, self._at, self._weights, strict=True):
            weighted += weight * math.log(one.seconds / sum(map(mul, prior, x)))
        scale = math.exp(weighted / self._total)
        return tuple([scale * c for c in prior])

    def _growing_share(self, start: Coefficients) -> float:
        """Share of the growth term in a step of 16 workers or more, for a coefficient of 1; of the measured sizes,
        where by the prior many workers take no time.
        """
        seconds = sum(map(mul, start, self._far))
        return self._far[-1] / seconds if seconds > 0.0 else self._most[-1]
