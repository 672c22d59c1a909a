"""What like jobs have shown: how their speed depends on size, how long a step takes, and how long they trained.

`History` learns from finished jobs, and how models scale from running ones, too (`lessons`).

Frozen: learning from a finished job makes another history. Its size is bounded: of many models and kinds of job, those
that finished longest ago are forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.core.estimates import Basis
from headway.core.job import Job, Target
from headway.estimates.fit.borne_out import borne_out, overstated
from headway.estimates.fit.change_costs import ChangeCosts
from headway.estimates.fit.duration import Durations, newest
from headway.estimates.fit.kinds import FEW_USERS, JobCurve, Kind
from headway.estimates.fit.lessons import KindKey, Lesson, Lessons, ModelForm, ModelOnType
from headway.estimates.fit.pace import Guess
from headway.estimates.fit.pledge import UNKNOWN, Trust
from headway.estimates.fit.prior import Prior, plain_prior
from headway.estimates.fit.speed import (
    PRIOR_SPREAD,
    Form,
    Setting,
    SpeedFit,
    exchange_of,
    left_a_node,
    with_exchange,
)
from headway.estimates.fit.target import NOBODY, Reached
from headway.estimates.fit.track import Track
from headway.estimates.fit.unseen import Unseen

LEARNED_SPREAD = 0.07
KEPT = 2.0
"""Other users are told what a running job has shown if so many jobs of its user have ended, as they had promised."""
MOST_KINDS = 5_000
"""Models and forms, and models and targets, that are remembered."""


@dataclass(frozen=True, slots=True)
class History:
    """What finished jobs have taught."""

    kinds: Mapping[tuple[str, Form], Kind] = field(default_factory=dict)
    durations: Durations = Durations()
    targets: Mapping[tuple[str, Target], Reached] = field(default_factory=dict)
    """By model and target."""
    users: Mapping[str, Trust] = field(default_factory=dict)
    """What the promises of users' jobs were worth."""
    unseen: Mapping[Form, Unseen] = field(default_factory=dict)
    """What is believed of models that nobody has seen; without it, Amdahl's law."""
    lessons: Lessons = Lessons()
    """What running jobs have shown so far. It is not kept in files: they show it again."""
    types: Mapping[ModelOnType, Kind] = field(default_factory=dict)
    """What `kinds` has of all accelerators together, by type: told first to jobs on that type."""
    costs: ChangeCosts = ChangeCosts()
    """What starts and stops have taken."""
    memo: dict[tuple[str, Form, str, Setting, str], Prior] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Priors of sizes that were asked for: jobs of one model and user that ask for the same have the same."""

    def trust(self, job: Job) -> Trust:
        return self.users.get(job.user, UNKNOWN)

    def doubt(self, job: Job, track: Track) -> Basis:
        """Why a job's reports are not believed, because of itself or of its user; `NOTHING` where they are."""
        return track.doubt.basis or (Basis.LATE if self.trust(job).broken else Basis.NOTHING)

    def reached(self, job: Job) -> Reached:
        """How many steps jobs of the same model took to the same target."""
        return NOBODY if job.target is None else self.targets.get((job.model, job.target), NOBODY)

    def kind(self, job: Job, on: str = "") -> Kind | None:
        """What finished jobs of the same model and form have shown: on this type of accelerators, or on all of them."""
        if not job.model:
            return None
        key = (job.model, Form.of(job))
        return self.finished((*key, on) if on else key)

    def finished(self, key: KindKey) -> Kind | None:
        """What jobs that are over have shown."""
        return self.kinds.get(key) if len(key) == 2 else self.types.get(key)

    def told_on(self, job: Job, on: str) -> Kind | None:
        """What is told to a job of what was shown on this type. Where three users or more train its model, but not on
        this type, one of them could lie: then it is told what its own user's jobs have shown there.
        """
        here, together = (self.kind(job, on), self.kind(job)) if on else (None, None)
        if here is None or together is None or len(here.users) >= FEW_USERS or len(together.users) < FEW_USERS:
            return here
        own = here.users.get(job.user) if job.user else None
        return None if own is None else Kind(own.coefficients, own.weight, own.seconds, {job.user: own}, own.across)

    def scales_like(self, job: Job, on: str = "") -> Kind | None:
        """The kind that tells how the job scales: on its type where that was shown, else on all types together."""
        here = self.told_on(job, on)
        return here if here is not None and here.weight else self.kind(job)

    def prior_of_sizes(self, job: Job, asked: Setting) -> Prior:
        """The same as `prior`, with the lessons of running jobs. Only sizes are chosen by it: paces, times and what is
        taught rest on finished jobs, whose ends have borne out what they showed.
        """
        key = (job.model, Form.of(job), job.user, asked, asked.on)
        known = self.memo.get(key)
        if known is None:
            kind = self._lesson_for(job, asked.on)
            if len(self.memo) >= MOST_KINDS:
                self.memo.clear()
            known = self.prior(job, asked) if kind is None else self._prior_by(kind, Form.of(job), asked)
            self.memo[key] = known
        return known

    def _lesson_for(self, job: Job, on: str) -> Kind | None:
        if not job.model or not self.lessons.given:
            return None
        keys = reversed(_keys((job.model, Form.of(job)), on))
        kinds = (self.lessons.kind(key, job.user, self.finished(key)) for key in keys)
        return next((kind for kind in kinds if kind is not None and kind.weight), None)

    def prior(self, job: Job, asked: Setting) -> Prior:
        """What to expect before measurements: the model's history where there is one, else that of unseen models."""
        return self._prior_by(self.scales_like(job, asked.on), Form.of(job), asked)

    def _prior_by(self, kind: Kind | None, form: Form, asked: Setting) -> Prior:
        if kind is None or not kind.weight:
            unseen = self.unseen.get(form)
            if unseen is not None:
                return Prior(form=form, coefficients=unseen.at(form, asked), spread=unseen.spread)
            return Prior(form=form, coefficients=plain_prior(form, asked), spread=PRIOR_SPREAD)
        return Prior(
            form=form, coefficients=kind.coefficients, spread=_learned_spread(kind.weight),
            across_spread=_learned_spread(kind.across),
        )  # fmt: skip

    def step(self, job: Job, asked: Setting) -> Guess | None:
        """Seconds per step at the requested size, by like jobs: those on its type of accelerators before others, the
        user's own before others'. Where no like job asked for this size, by those of the nearest one.
        """
        here = self._step_of(self.told_on(job, asked.on), job, asked)
        return self._step_of(self.kind(job), job, asked) if here is None else here

    def _step_of(self, kind: Kind | None, job: Job, asked: Setting) -> Guess | None:
        workers = asked.layout.workers
        if kind is None:
            return None
        guess = kind.step(job.user, workers)
        if guess is not None:
            return guess
        for size in sorted(kind.sizes(job.user), key=lambda size: (abs(math.log(size / workers)), size)):
            guess = kind.step(job.user, size)
            if guess is not None:
                return _carried(guess, size, asked, self.prior(job, asked))
        return None

    def heard(self, job: Job, track: Track, asked: Setting, service: float = math.inf) -> History:
        """The history after a report of a running job: what it has shown in several settings is told at once. The
        same object where that is nothing new. `service`: replica-seconds so far.
        """
        if not job.model:
            return self
        key = (job.model, Form.of(job))
        believed = not track.doubt.strikes and self.doubt(job, track) is Basis.NOTHING
        sizes, before = track.sizes_shown() if believed else 0, self.lessons.sizes(key, job.id)
        if sizes != before and track.impossible():
            sizes = 0
        if sizes == before or max(sizes, before) < 2:
            return self
        alone = self.without_lesson(job)
        if sizes < 2 or overstated(track, self.prior(job, asked), service):
            return alone
        on = type_shown(track)
        found, lessons = alone.shown_by(job, track, asked.on_type(on or asked.on)), alone.lessons
        trusted = self.trust(job).count >= KEPT and not self.trust(job).odd
        across = left_a_node(track.observations())
        lesson = Lesson(JobCurve(job.user, found.coefficients, asked, sizes, across), trusted)
        for one in _keys(key, on):
            lessons = lessons.with_lesson(one, job.id, lesson)
        return replace(alone, lessons=lessons)

    def without_lesson(self, job: Job) -> History:
        """The history after a running job has left; the same object where it gave no lesson."""
        lessons = self.lessons
        for key in lessons.keys((job.model, Form.of(job)), job.id):
            lessons = lessons.without(key, job.id)
        return self if lessons is self.lessons else replace(self, lessons=lessons)

    def shown_by(self, job: Job, track: Track, asked: Setting) -> SpeedFit:
        """By its own measurements. What exchange across nodes takes is read off beside what is known of the other
        terms: a few sizes do not tell them apart.
        """
        prior = self.prior(job, asked)
        found = track.fitted(prior.vague())
        if prior.form is Form.GANG and left_a_node(track.observations()):
            sharper = track.fitted(replace(prior, across_spread=prior.vague().across_spread))
            exchange = exchange_of(sharper.coefficients)
            found = replace(found, coefficients=with_exchange(found.coefficients, exchange))
        return found

    def learn(
        self, job: Job, track: Track | None, asked: Setting, trained_seconds: float, service: float = math.inf
    ) -> History:
        """The history after this job has finished. `service`: replica-seconds, where they are known."""
        alone = self.without_lesson(job)
        if alone is not self:
            return alone.learn(job, track, asked, trained_seconds, service)
        durations = self.durations.add(job, trained_seconds) if trained_seconds > 0 else self.durations
        users = self._trusted(job, track, trained_seconds)
        if track is None or not job.model or self.trust(job).odd or not borne_out(track, trained_seconds):
            return replace(self, durations=durations, users=users)
        if overstated(track, self.prior(job, asked), service):
            return replace(self, durations=durations, users=users)
        targets = self.targets
        if job.target is not None:
            there = self.reached(job).learn(track.metrics, track.step, job.target)
            targets = newest(targets, {(job.model, job.target): there}, MOST_KINDS)
        return replace(self._paced(job, track, asked), durations=durations, targets=targets, users=users)

    def _paced(self, job: Job, track: Track, asked: Setting) -> History:
        """After a job has shown its speed, among all jobs of its model and among those on its type of accelerators."""
        on = type_shown(track)
        asked = asked.on_type(on or asked.on)
        prior = self.prior(job, asked)
        at_asked = track.seconds_at(asked, prior)
        sizes = len({one.setting for one in track.observations()})
        found = self.shown_by(job, track, asked) if sizes > 1 else None
        across = left_a_node(track.observations())
        kinds, types = self.kinds, self.types
        for key in _keys((job.model, prior.form), on):
            kind = self.finished(key) or Kind()
            if found is not None:
                kind = kind.scaled_like(job.user, found.coefficients, prior.form, asked, sizes, across)
            if at_asked is not None and at_asked.spread < 0.3:
                kind = kind.took(job.user, asked.layout.workers, at_asked.seconds)
            if len(key) == 2:
                kinds = newest(kinds, {key: kind}, MOST_KINDS)
            else:
                types = newest(types, {key: kind}, MOST_KINDS)
        return replace(self, kinds=kinds, types=types)

    def _trusted(self, job: Job, track: Track | None, trained_seconds: float) -> Mapping[str, Trust]:
        if track is None or track.pledge is None or not job.user:
            return self.users  # jobs that name no user have nothing to do with each other
        stretch = track.pledge.stretch(trained_seconds)
        if stretch is None:
            return self.users
        stretch = stretch if track.at_last_steps() else max(stretch, 1.0)
        return newest(self.users, {job.user: self.trust(job).add(stretch)}, MOST_KINDS)


def _learned_spread(weight: float) -> float:
    return max(LEARNED_SPREAD, PRIOR_SPREAD / (1.0 + weight))


def _carried(guess: Guess, size: int, asked: Setting, prior: Prior) -> Guess | None:
    """The pace of jobs that asked for `size` workers, carried to the requested size; less sure the farther it is."""
    workers, layout = asked.layout.workers, asked.layout
    there = replace(asked, layout=replace(layout, workers=size, nodes=-(-size * layout.nodes // workers)))
    slower = SpeedFit(prior.form, prior.coefficients).relative(there, asked)
    if slower <= 0:
        return None
    return Guess(guess.seconds * slower, guess.spread).vaguer(prior.spread * abs(math.log2(size / workers)))


def _keys(model: ModelForm, on: str) -> tuple[KindKey, ...]:
    """Under what it is remembered: all types of accelerators together, and this one where it is known."""
    return (model, (*model, on)) if on else (model,)


def type_shown(track: Track) -> str:
    """The type of accelerators on which a job has shown its speed; empty where it was on several."""
    found = {one.setting.on for one in track.observations()} or {track.setting.on}
    return found.pop() if len(found) == 1 else ""
