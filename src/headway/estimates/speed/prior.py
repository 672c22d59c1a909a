"""What is believed of how a job's speed depends on its size before it was measured at several.

Example: of a gang that asks for one worker and whose model nobody has seen, two workers on a node are believed to be
1.8 times as fast, and two on two nodes 1.3 times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.estimates.models.scaling import PARALLEL
from headway.estimates.speed.model import ACROSS, PRIOR_SPREAD, Coefficients, Form, Setting, terms

PARALLEL_CPU = 0.97
EXCHANGE = 0.5
"""What exchange across nodes adds to the compute of a gang that nobody has measured, as a share of it. Of the eleven
built-in profiles of gangs, six add 0.2 to 2 (0.9 in the mean), five nothing.
"""
SERVED: Coefficients = (0.03, 0.97, 0.5, 0.1, 0.03, 0.0)
"""With servers, relative to the compute of one worker."""


def plain_prior(form: Form, asked: Setting) -> Coefficients:
    """What is believed of a model that nobody has measured: one second per step at the requested size.

    A gang follows Amdahl's law in replicas and in cpu, and exchange across nodes makes each of its workers slower. With
    servers the exchange grows with the workers, too, near the median of the built-in profiles of that form.
    """
    parallel = PARALLEL * max(1, asked.layout.workers)
    told = SERVED
    if form is Form.GANG:
        cpu = parallel * PARALLEL_CPU
        told = (parallel - cpu, cpu, 1 - PARALLEL, 0.0, EXCHANGE * parallel, 0.0)
    at_asked = sum(c * x for c, x in zip(told, terms(form, asked), strict=True))
    return tuple(c / at_asked for c in told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is believed of a job's speed before it is measured at several sizes."""

    form: Form
    coefficients: Coefficients
    spread: float
    across_spread: float = PRIOR_SPREAD
    """The spread of the exchange across nodes: jobs that never left a node tell nothing of it."""

    def vague(self) -> Prior:
        """The same, as unsure as if nobody had been measured: what is believed already must not confirm itself."""
        return replace(self, spread=max(self.spread, PRIOR_SPREAD), across_spread=max(self.across_spread, PRIOR_SPREAD))

    def without_decline(self) -> Prior:
        """The same, but more workers of a gang are never slower."""
        if self.form is not Form.GANG or not self.coefficients[-1]:
            return self
        return replace(self, coefficients=(*self.coefficients[:-1], 0.0))

    def without_exchange(self) -> Prior:
        """The same, but leaving a node costs a gang nothing."""
        if self.form is not Form.GANG or not self.coefficients[ACROSS]:
            return self
        return replace(self, coefficients=(*self.coefficients[:ACROSS], 0.0, *self.coefficients[ACROSS + 1 :]))
