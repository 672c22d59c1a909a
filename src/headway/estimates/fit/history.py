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
from headway.core.node import Nodes
from headway.estimates.fit.duration import Durations, newest
from headway.estimates.fit.kinds import Kind
from headway.estimates.fit.lessons import Lesson, Lessons, ModelForm
from headway.estimates.fit.pace import Guess
from headway.estimates.fit.pledge import UNKNOWN, Trust
from headway.estimates.fit.speed import (
    PRIOR_SPREAD,
    Form,
    Prior,
    Setting,
    SpeedFit,
    gang_setting,
    plain_prior,
    workers_per_node,
)
from headway.estimates.fit.target import NOBODY, Reached
from headway.estimates.fit.track import Track
from headway.estimates.fit.unseen import Unseen
from headway.estimates.models.scaling import computes

LEARNED_SPREAD = 0.07
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

    def trust(self, job: Job) -> Trust:
        return self.users.get(job.user, UNKNOWN)

    def doubt(self, job: Job, track: Track) -> Basis:
        """Why a job's reports are not believed, because of itself or of its user; `NOTHING` where they are."""
        return track.doubt.basis or (Basis.LATE if self.trust(job).broken else Basis.NOTHING)

    def reached(self, job: Job) -> Reached:
        """How many steps jobs of the same model took to the same target."""
        return NOBODY if job.target is None else self.targets.get((job.model, job.target), NOBODY)

    def kind(self, job: Job) -> Kind | None:
        """What jobs of the same model and form have shown."""
        return self._kind((job.model, Form.of(job))) if job.model else None

    def _kind(self, key: ModelForm) -> Kind | None:
        kind = self.lessons.kinds.get(key)
        return self.kinds.get(key) if kind is None else kind

    def prior(self, job: Job, asked: Setting) -> Prior:
        """What to expect before measurements: the model's history where there is one, else that of unseen models."""
        form = Form.of(job)
        kind = self._kind((job.model, form)) if job.model else None
        if kind is None or not kind.weight:
            unseen = self.unseen.get(form)
            if unseen is not None:
                return Prior(form=form, coefficients=unseen.at(form, asked), spread=unseen.spread)
            return Prior(form=form, coefficients=plain_prior(form, asked), spread=PRIOR_SPREAD)
        return Prior(
            form=form, coefficients=kind.coefficients, spread=max(LEARNED_SPREAD, PRIOR_SPREAD / (1.0 + kind.weight))
        )

    def knows(self, job: Job) -> bool:
        """Whether the prior is more than Amdahl's law."""
        kind = self.kind(job)
        return Form.of(job) in self.unseen or (kind is not None and kind.weight > 0)

    def step(self, job: Job, asked: Setting) -> Guess | None:
        """Seconds per step at the requested size, by like jobs: the user's own before others'. Where no like job asked
        for this size, by those of the nearest one.
        """
        kind, workers = self.kind(job), asked.layout.workers
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
        """The history after a report of a running job: what it has shown in several settings is told to others at once.
        The same object where that is nothing new.
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
        lesson = Lesson(job.user, alone.shown_by(job, track, asked).coefficients, asked, sizes)
        return replace(alone, lessons=alone.lessons.with_lesson(key, job.id, lesson, alone.kinds.get(key)))

    def without_lesson(self, job: Job) -> History:
        """The history after a running job has left; the same object where it gave no lesson."""
        key = (job.model, Form.of(job))
        if not self.lessons.sizes(key, job.id):
            return self
        return replace(self, lessons=self.lessons.without(key, job.id, self.kinds.get(key)))

    def shown_by(self, job: Job, track: Track, asked: Setting) -> SpeedFit:
        """By its own measurements: what is believed already must not confirm itself."""
        prior = self.prior(job, asked)
        return track.fitted(replace(prior, spread=max(prior.spread, PRIOR_SPREAD)))

    def learn(self, job: Job, track: Track | None, asked: Setting, trained_seconds: float) -> History:
        """The history after this job has finished."""
        if self.lessons.sizes((job.model, Form.of(job)), job.id):
            return self.without_lesson(job).learn(job, track, asked, trained_seconds)
        durations = self.durations.add(job, trained_seconds) if trained_seconds > 0 else self.durations
        users = self._trusted(job, track, trained_seconds)
        if track is None or not job.model or track.doubt.strikes:
            return replace(self, durations=durations, users=users)
        if track.pledge is not None and not track.pledge.kept(trained_seconds):
            return replace(self, durations=durations, users=users)  # its end belied its reports
        prior = self.prior(job, asked)
        key = (job.model, prior.form)
        kind = self.kinds.get(key, Kind())
        at_asked = track.seconds_at(asked, prior)
        sizes = len({one.setting for one in track.observations()})
        if sizes > 1:
            found = self.shown_by(job, track, asked)
            kind = kind.scaled_like(job.user, found.coefficients, prior.form, asked, sizes)
        if at_asked is not None and at_asked.spread < 0.3:
            kind = kind.took(job.user, asked.layout.workers, at_asked.seconds)
        targets = self.targets
        if job.target is not None:
            there = self.reached(job).learn(track.metrics, track.step, job.target)
            targets = newest(targets, {(job.model, job.target): there}, MOST_KINDS)
        kinds = newest(self.kinds, {key: kind}, MOST_KINDS)
        lessons = self.lessons.without(key, job.id, kind) if key in self.lessons.given else self.lessons
        return replace(self, kinds=kinds, durations=durations, targets=targets, users=users, lessons=lessons)

    def _trusted(self, job: Job, track: Track | None, trained_seconds: float) -> Mapping[str, Trust]:
        if track is None or track.pledge is None or not job.user:
            return self.users  # jobs that name no user have nothing to do with each other
        stretch = track.pledge.stretch(trained_seconds)
        return (
            self.users if stretch is None else newest(self.users, {job.user: self.trust(job).add(stretch)}, MOST_KINDS)
        )


def _carried(guess: Guess, size: int, asked: Setting, prior: Prior) -> Guess | None:
    """The pace of jobs that asked for `size` workers, carried to the requested size; less sure the farther it is."""
    workers, layout = asked.layout.workers, asked.layout
    there = replace(asked, layout=replace(layout, workers=size, nodes=-(-size * layout.nodes // workers)))
    slower = SpeedFit(prior.form, prior.coefficients).relative(there, asked)
    if slower <= 0:
        return None
    return Guess(guess.seconds * slower, guess.spread).vaguer(prior.spread * abs(math.log2(size / workers)))


def asked_setting(job: Job, nodes: Nodes) -> Setting:
    """The requested size in the best place."""
    if len(job.roles) == 1 and job.roles[0].replicas and computes(job.roles[0].name):
        role = job.roles[0]
        known: Setting | None = nodes.memo.get((asked_setting, role.replicas, role.request))
        if known is None:
            setting = gang_setting(role.replicas, workers_per_node(job, nodes))
            known = nodes.keep((asked_setting, role.replicas, role.request), setting)
        return known
    return Setting.sized(job, tuple(role.replicas for role in job.roles), workers_per_node(job, nodes))
