"""What one job has shown: its speed here and elsewhere, how its loss falls, and whether it is believed.

Folding a report takes constant time. Reports that come much faster than the job ages add nothing and are ignored. Loss
points are thinned. A fit is made when it is asked for, and again only when its input has changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from headway.core.estimates import Basis
from headway.core.job import Target
from headway.core.placement import Placement
from headway.core.snapshot import Sample
from headway.estimates.job import curve, doubt
from headway.estimates.job.doubt import NO_DOUBT, Doubt
from headway.estimates.job.growth import Grower
from headway.estimates.job.pace import Guess, Pace
from headway.estimates.job.promise import PromisedEnd
from headway.estimates.job.target import Length, Reached, steps_to
from headway.estimates.speed.measurements import Measurements
from headway.estimates.speed.model import Observation, Setting, SpeedFit, at_several
from headway.estimates.speed.prior import Prior


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


MOST_SETTINGS = 12
PASSED_OVER_SHARE = 0.01
PASSED_OVER_SECONDS = 60.0
"""A report is ignored if it comes sooner than both this share of the job's age and this many seconds."""
MOVED_SPREAD = 0.1
"""Spread that is added when a model carries a measured speed from one setting to another."""
MOST_LOSS = 1e100
"""A loss beyond this has diverged and is ignored, as is NaN."""
CURVE_AGAIN = 1.1
"""A loss curve is fitted again when the step has grown by this factor."""
SURE = 0.15
"""A measurement with a larger spread than this says nothing about other settings."""
LONG_LEFT = 21_600.0
"""Seconds. With less left, a job does not leave its node only to find out what that costs."""
TOLD = 0.05
"""A measurement with a larger spread than this is told to no other job while this one runs."""


Points = tuple[tuple[float, float], ...]
"""Step and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The setting of the first report from a new placement."""

    placement: Placement
    setting: Setting
    now: float
    prior: Prior
    clock: float
    """Seconds that it had trained when it began here, less that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One job's reports, condensed."""

    began: float
    at: float
    step: int
    total: int | None
    placement: Placement
    setting: Setting
    pace: Pace
    seen: tuple[Observation, ...] = ()
    """Measurements in the settings that the job has left."""
    losses: Points = ()
    metrics: Points = ()
    """Points of the target's metric."""
    grower: Grower | None = None
    doubt: Doubt = NO_DOUBT
    clock: float = math.nan
    """Seconds that the job had trained at its last report, less the time of that report."""
    promised: PromisedEnd | None = None
    """What its reports promised since it is where it is; None before its speed is known."""
    memo: Memo = field(default_factory=Memo, compare=False)

    @classmethod
    def beginning(cls, sample: Sample, where: Where, expected: Guess | None = None) -> Track | None:
        """Starts with the first report; None where that is impossible. `expected`: seconds per step of like jobs."""
        if doubt.impossible(sample, -math.inf, where.now) is not None:
            return None
        track = cls(
            began=sample.at, at=sample.at, step=sample.step, total=_total(sample.total_steps, None),
            placement=where.placement, setting=where.setting, pace=Pace.beginning(sample.at, sample.step, expected),
            clock=where.clock,
        )  # fmt: skip
        grower, losses = track.with_loss(sample)
        return replace(track, grower=grower, losses=losses, metrics=track.with_metric(sample))

    def fold(self, sample: Sample, now: float) -> Track:
        """The track after a report from the same placement as the last one."""
        if self._adds_nothing(sample):
            return self
        why = doubt.impossible(sample, self.at, now)
        if why is not None:
            return replace(self, doubt=self.doubt.strike(why))
        if sample.at <= self.at and sample.step == self.step:
            return self
        why = doubt.odd(sample, self.step, self.total, self.pace) or self._late(sample.at)
        back = sample.step < self.step
        pace = self._anew(sample, self.pace.guess()) if back else self._paced(sample)
        grower, losses = self.with_loss(sample)
        at, total = max(self.at, sample.at), _total(sample.total_steps, self.total)
        return Track(  # written out: `replace` takes as long as all the rest
            began=self.began, at=at, step=sample.step, placement=self.placement,
            total=total, setting=self.setting, pace=pace, seen=self.seen,
            doubt=self.doubt.clean() if why is None else self.doubt.strike(why), grower=grower, losses=losses,
            metrics=self.with_metric(sample), clock=self.clock, memo=self.memo,
            promised=self._pledged(self.clock + at, _left(total, sample.step, pace.shown())),
        )  # fmt: skip

    def moved(self, sample: Sample, where: Where) -> Track:
        """The track after the first report from another size or placement.

        Earlier measurements stay known, and the model says what to expect here. A lower step is that of a checkpoint.
        """
        why = doubt.impossible(sample, self.at, where.now)
        if why is not None:
            return replace(self, doubt=self.doubt.strike(why))
        seen = self.observations()[-MOST_SETTINGS:]
        expected = self.expected_at(where.setting, where.prior)
        grower, losses = self.with_loss(sample)
        pace, total = self._anew(sample, expected), _total(sample.total_steps, self.total)
        own = self.seen or self.pace.shown() is not None  # like jobs make no promise for it
        left = _left(total, sample.step, expected) if own else None
        promised = None if left is None else PromisedEnd.beginning(where.clock + sample.at, left)
        return Track(
            began=self.began, at=sample.at, step=sample.step, total=total, seen=seen,
            placement=where.placement, setting=where.setting, pace=pace, clock=where.clock, doubt=self.doubt,
            grower=grower, losses=losses, metrics=self.with_metric(sample), promised=promised, memo=self.memo,
        )  # fmt: skip

    def guess(self) -> Guess | None:
        """Seconds per step at the present placement."""
        return self.memo.guess_by(self.pace)

    def observations(self) -> tuple[Observation, ...]:
        """Of all settings so far, the present one included."""
        memo = self.memo
        if memo.all_of is not self.pace or memo.all_before is not self.seen:
            memo.all_of, memo.all_before, memo.all = self.pace, self.seen, self._observations()
        return memo.all

    def _observations(self) -> tuple[Observation, ...]:
        now = self.guess()
        if now is None or now.spread > SURE:
            return self.seen
        here = self.setting
        others = tuple(one for one in self.seen if one.setting != here or one.setting.on != here.on)
        return (*others, Observation(self.setting, now.seconds, now.spread))

    def paces_on_types(self) -> dict[str, float]:
        """By type of accelerators: logarithm of seconds per step at its present size."""
        size, cpu = self.setting.layout, self.setting.cpu
        return {
            one.setting.on: math.log(one.seconds)
            for one in self.observations()
            if one.setting.on and one.setting.cpu == cpu
            and (one.setting.layout.workers, one.setting.layout.servers) == (size.workers, size.servers)
        }  # fmt: skip

    def sizes_shown(self) -> int:
        """In how many settings its speed is known well enough to be told to others."""
        return sum(one.spread <= TOLD for one in self.observations()) if self.seen else 0

    def may_leave_a_node(self, steps: int | None) -> bool:
        """Whether it may find out what leaving its node costs: it was on one only, and has so long left that a failed
        trial costs it little. Reports come the more seldom the longer it has trained, and the trial lasts until one.
        """
        total, guess = self.total or steps, self.guess()
        if not total or guess is None or any(one.setting.layout.nodes > 1 for one in self.observations()):
            return False
        return (total - self.step) * guess.seconds > max(LONG_LEFT, self.at - self.began)

    def fitted(self, prior: Prior) -> SpeedFit:
        """The speed model of this job, by its measurements so far."""
        return self.memo.fit_by(prior, self.observations())

    def shape(self, prior: Prior) -> SpeedFit:
        """The same up to a factor: how its speed depends on its setting. Before it was measured in two settings that is
        the prior's, and the same for all jobs alike.
        """
        seen = self.observations()
        return (
            self.fitted(prior) if seen and at_several(seen) else SpeedFit(prior.form, prior.coefficients, prior.spread)
        )

    def seconds_at(self, setting: Setting, prior: Prior) -> Guess | None:
        """Seconds per step in a setting: measured in the present one, by the model in another."""
        here = self.guess()
        if here is None or setting == self.setting:
            return here
        model = self.fitted(prior)
        one, other = model.seconds(self.setting), model.seconds(setting)
        if one <= 0 or other <= 0:
            return None
        return Guess(here.seconds * other / one, here.spread).vaguer(MOVED_SPREAD + model.prior_spread / 4)

    def expected_at(self, setting: Setting, prior: Prior) -> Guess | None:
        """The same in a setting that the job may have left: as it was measured there, if it was."""
        there = next((one for one in self.observations() if one.setting == setting), None)
        return self.seconds_at(setting, prior) if there is None else Guess(there.seconds, there.spread)

    def step_when(self, trained: float) -> float:
        """The step when the job had trained this many seconds in all, at the speed that it had at its last report."""
        guess, more = self.guess(), trained - (self.clock + self.at)
        return self.step if guess is None or not math.isfinite(more) else max(0.0, self.step + more / guess.seconds)

    def steps_to_converge(self) -> float | None:
        """The step from which its loss will no longer fall; None where its losses do not tell."""
        upto = CURVE_AGAIN ** math.floor(math.log(max(1, self.step), CURVE_AGAIN))
        points = tuple(point for point in self.losses if point[0] <= upto)
        if self.memo.curve_of != points:
            found = curve.fit(points)
            self.memo.curve_of, self.memo.steps = points, math.inf if found is None else found.steps_to_converge()
        return self.memo.steps if math.isfinite(self.memo.steps) else None

    def steps_to_target(self, target: Target, like: Reached) -> Length | None:
        """The whole way to the target in steps; None where neither its metric nor like jobs tell."""
        upto = CURVE_AGAIN ** math.floor(math.log(max(1, self.step), CURVE_AGAIN))
        points = tuple(point for point in self.metrics if point[0] <= upto)
        asked = (target, like, points, upto)
        if self.memo.length_of != asked:
            self.memo.length_of, self.memo.length = asked, steps_to(target, points, int(upto), like)
        return self.memo.length

    def _adds_nothing(self, sample: Sample) -> bool:
        gone = sample.at - self.at
        return (
            0.0 <= gone < min(PASSED_OVER_SECONDS, PASSED_OVER_SHARE * (self.at - self.began))
            and sample.step >= self.step
            and (sample.total_steps is None or sample.total_steps == self.total)
            and (not self.total or sample.step <= self.total)
        )

    def _late(self, at: float) -> Basis | None:
        return Basis.LATE if self.promised is not None and self.promised.late(self.clock + at) else None

    def _pledged(self, trained: float, left: float | None) -> PromisedEnd | None:
        if left is None or not math.isfinite(trained):
            return self.promised
        return PromisedEnd.beginning(trained, left) if self.promised is None else self.promised.renewed(trained, left)

    def _paced(self, sample: Sample) -> Pace:
        return self.pace.add(sample.at, sample.step) if sample.at > self.pace.last else self.pace

    def _anew(self, sample: Sample, prior: Guess | None) -> Pace:
        """A new line. How often the job reports does not change with its speed."""
        vaguer = None if prior is None else prior.vaguer(MOVED_SPREAD)
        return Pace.beginning(sample.at, sample.step, vaguer, self.pace.gap)

    def with_metric(self, sample: Sample) -> Points:
        """Metric points after this report. As with losses: only newer steps, and no NaN."""
        if sample.metric is None or not abs(sample.metric) < MOST_LOSS:
            return self.metrics
        if self.metrics and sample.step <= self.metrics[-1][0]:
            return self.metrics
        return curve.thinned((*self.metrics, (float(sample.step), sample.metric)))

    def with_loss(self, sample: Sample) -> tuple[Grower | None, Points]:
        """Growth and loss points after this report. A NaN is ignored."""
        if sample.loss is None or not abs(sample.loss) < MOST_LOSS:
            return self.grower, self.losses
        grower = self.grower or Grower.beginning(sample.at)
        last = self.losses[-1][0] if self.losses else -1.0
        losses = self.losses
        if sample.step > last:
            losses = curve.thinned((*losses, (float(sample.step), sample.loss)))
        return grower.add(sample.at, sample.loss, self.placement.width()), losses


def _left(total: int | None, step: int, guess: Guess | None) -> float | None:
    """Seconds left as the job itself claims; None before its speed is known."""
    return None if guess is None or not total else max(0, total - step) * guess.seconds


def _total(claimed: int | None, before: int | None) -> int | None:
    return claimed if claimed is not None and 0 < claimed <= doubt.MOST_STEPS else before
