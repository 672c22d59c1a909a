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
from headway.estimates.history.by_user import JobCurve, ModelHistory, Shown
from headway.estimates.history.change_costs import ChangeCosts
from headway.estimates.history.durations import Durations, newest
from headway.estimates.history.lessons import Lessons, ModelForm, ModelKey, ModelOnType
from headway.estimates.job.pace import Guess
from headway.estimates.job.promise import UNKNOWN, UserReliability
from headway.estimates.job.target import NOBODY, Reached
from headway.estimates.job.track import Track
from headway.estimates.speed.model import (
    PRIOR_SPREAD,
    Form,
    Setting,
    SpeedFit,
    exchange_of,
    left_a_node,
    with_exchange,
)
from headway.estimates.speed.prior import Prior, plain_prior
from headway.estimates.speed.types import TypeLesson, TypeLessons

LEARNED_SPREAD = 0.07
MOST_KINDS = 5_000
"""Models and forms, and models and targets, that are remembered."""


@dataclass(frozen=True, slots=True)
class History:
    """What finished jobs have taught."""

    kinds: Mapping[tuple[str, Form], ModelHistory] = field(default_factory=dict)
    durations: Durations = Durations()
    targets: Mapping[tuple[str, Target], Reached] = field(default_factory=dict)
    """By model and target."""
    users: Mapping[str, UserReliability] = field(default_factory=dict)
    """What the promises of users' jobs were worth."""
    lessons: Lessons = Lessons()
    """What running jobs have shown so far. It is not kept in files: they show it again."""
    types: Mapping[ModelOnType, ModelHistory] = field(default_factory=dict)
    """What `kinds` has of all accelerators together, by type: told first to jobs on that type."""
    on_types: TypeLessons = TypeLessons()
    """What jobs have shown that ran on several types of accelerators."""
    costs: ChangeCosts = ChangeCosts()
    """What starts and stops have taken."""
    memo: dict[tuple[str, Form, str, Setting, str], Prior] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Priors of sizes that were asked for: jobs of one model and user that ask for the same have the same."""

    def reliability(self, job: Job) -> UserReliability:
        return self.users.get(job.user, UNKNOWN)

    def doubt(self, job: Job, track: Track) -> Basis:
        """Why a job's reports are not believed, because of itself or of its user; `NOTHING` where they are."""
        return track.doubt.basis or (Basis.LATE if self.reliability(job).broken else Basis.NOTHING)

    def reached(self, job: Job) -> Reached:
        """How many steps jobs of the same model took to the same target."""
        return NOBODY if job.target is None else self.targets.get((job.model, job.target), NOBODY)

    def kind(self, job: Job, on: str = "") -> ModelHistory | None:
        """What finished jobs of the same model and form have shown: on this type of accelerators, or on all of them."""
        if not job.model:
            return None
        key = (job.model, Form.of(job))
        return self.finished((*key, on) if on else key)

    def finished(self, key: ModelKey) -> ModelHistory | None:
        """What jobs that are over have shown."""
        return self.kinds.get(key) if len(key) == 2 else self.types.get(key)

    def scales_like(self, job: Job, on: str = "") -> Shown | ModelHistory | None:
        """What tells how the job scales: what was shown on its type of accelerators, else on all types together."""
        for kind in (self.kind(job, on) if on else None, self.kind(job)):
            if kind is not None and (told := kind.scaling(job.user)).weight:
                return told
        return None

    def prior_of_sizes(self, job: Job, asked: Setting) -> Prior:
        """The same as `prior`, with the lessons of running jobs. Only sizes are chosen by it: paces, times and what is
        taught rest on finished jobs.
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

    def _lesson_for(self, job: Job, on: str) -> Shown | ModelHistory | None:
        if not job.model or not self.lessons.given:
            return None
        keys = reversed(_keys((job.model, Form.of(job)), on))
        kinds = (self.lessons.kind(key, job.user, self.finished(key)) for key in keys)
        told = (kind.scaling(job.user) for kind in kinds if kind is not None)
        return next((one for one in told if one.weight), None)

    def prior(self, job: Job, asked: Setting) -> Prior:
        """What to expect before measurements: the model's history where there is one, else `plain_prior`."""
        return self._prior_by(self.scales_like(job, asked.on), Form.of(job), asked)

    def _prior_by(self, kind: Shown | ModelHistory | None, form: Form, asked: Setting) -> Prior:
        if kind is None or not kind.weight:
            return Prior(form=form, coefficients=plain_prior(form, asked), spread=PRIOR_SPREAD)
        return Prior(
            form=form, coefficients=kind.coefficients, spread=_learned_spread(kind.weight),
            across_spread=_learned_spread(kind.across),
        )  # fmt: skip

    def step(self, job: Job, asked: Setting) -> Guess | None:
        """Seconds per step at the requested size, by like jobs: those on its type of accelerators before others, the
        user's own before others'. Where no like job asked for this size, by those of the nearest one.
        """
        here = self._step_of(self.kind(job, asked.on), job, asked) if asked.on else None
        return self._step_of(self.kind(job), job, asked) if here is None else here

    def _step_of(self, kind: ModelHistory | None, job: Job, asked: Setting) -> Guess | None:
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

    def heard(self, job: Job, track: Track, asked: Setting) -> History:
        """The history after a report of a running job: what it has shown in several settings is told at once. The
        same object where that is nothing new.
        """
        if not job.model:
            return self
        key = (job.model, Form.of(job))
        believed = not track.doubt.strikes and self.doubt(job, track) is Basis.NOTHING
        sizes, before = track.sizes_shown() if believed else 0, self.lessons.sizes(key, job.id)
        if sizes == before or max(sizes, before) < 2:
            return self
        alone = self.without_lesson(job)
        if sizes < 2:
            return alone
        on = type_shown(track)
        found, lessons = alone.shown_by(job, track, asked.on_type(on or asked.on)), alone.lessons
        lesson = JobCurve(job.user, found.coefficients, asked, sizes, left_a_node(track.observations()))
        for one in _keys(key, on):
            lessons = lessons.with_lesson(one, job.id, lesson)
        return replace(alone, lessons=lessons)

    def heard_on_types(self, job: Job, track: Track) -> History:
        """The same of types of accelerators, for a job that was measured on several. What one has taught is forgotten
        when its reports turn out not to be believed.
        """
        paces, lessons = track.paces_on_types(), self.on_types
        if track.doubt.strikes or self.doubt(job, track) is not Basis.NOTHING:
            lessons = lessons.without(job.model, job.id)
        elif len(paces) > 1:
            lessons = lessons.heard(job.model, job.id, TypeLesson(job.user, paces))
        return self if lessons is self.on_types else replace(self, on_types=lessons)

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

    def learn(self, job: Job, track: Track | None, asked: Setting, trained_seconds: float) -> History:
        """The history after this job has finished. One whose reports are not believed teaches how long it took only."""
        alone = self.without_lesson(job)
        if alone is not self:
            return alone.learn(job, track, asked, trained_seconds)
        durations = self.durations.add(job, trained_seconds) if trained_seconds > 0 else self.durations
        users = self._reliability_after(job, track, trained_seconds)
        if track is None or not job.model or track.doubt.strikes or self.doubt(job, track) is not Basis.NOTHING:
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
            kind = self.finished(key) or ModelHistory()
            if found is not None:
                kind = kind.scaled_like(job.user, found.coefficients, prior.form, asked, sizes, across)
            if at_asked is not None and at_asked.spread < 0.3:
                kind = kind.took(job.user, asked.layout.workers, at_asked.seconds)
            if len(key) == 2:
                kinds = newest(kinds, {key: kind}, MOST_KINDS)
            else:
                types = newest(types, {key: kind}, MOST_KINDS)
        return replace(self, kinds=kinds, types=types)

    def _reliability_after(
        self, job: Job, track: Track | None, trained_seconds: float
    ) -> Mapping[str, UserReliability]:
        if track is None or track.promised is None or not job.user:
            return self.users  # jobs that name no user have nothing to do with each other
        stretch = track.promised.stretch(trained_seconds)
        if stretch is None:
            return self.users
        return newest(self.users, {job.user: self.reliability(job).add(max(stretch, 1.0))}, MOST_KINDS)


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


def _keys(model: ModelForm, on: str) -> tuple[ModelKey, ...]:
    """Under what it is remembered: all types of accelerators together, and this one where it is known."""
    return (model, (*model, on)) if on else (model,)


def type_shown(track: Track) -> str:
    """The type of accelerators on which a job has shown its speed; empty where it was on several."""
    found = {one.setting.on for one in track.observations()} or {track.setting.on}
    return found.pop() if len(found) == 1 else ""
