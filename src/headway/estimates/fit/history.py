"""What like jobs have shown: how their speed depends on size, how long a step takes, and how long they trained.

`History` learns from finished jobs. `Like` is what it tells of a group of jobs before they report.

Frozen: learning from a finished job makes another history. Its size is bounded: of many models and kinds of job, those
that finished longest ago are forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headway.core.estimates import Basis
from headway.core.job import Job, Target
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.estimates.fit.duration import Durations, newest
from headway.estimates.fit.kinds import Kind
from headway.estimates.fit.lengths import LEAST_LEFT, Lengths, edge_of, place_of, place_of_all
from headway.estimates.fit.pace import Guess
from headway.estimates.fit.pledge import UNKNOWN, Trust
from headway.estimates.fit.speed import (
    PRIOR_SPREAD,
    Form,
    Setting,
    SpeedFit,
    gang_setting,
    plain_prior,
    workers_per_node,
)
from headway.estimates.fit.target import NOBODY, Reached
from headway.estimates.fit.track import Prior, Track
from headway.estimates.fit.unseen import Unseen
from headway.estimates.models.scaling import computes

LEARNED_SPREAD = 0.07
MOST_KINDS = 5_000
"""Models and forms, and models and targets, that are remembered."""
FEW = 12
"""Up to this many jobs are answered one by one."""


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
        return self.kinds.get((job.model, Form.of(job))) if job.model else None

    def prior(self, job: Job, asked: Setting) -> Prior:
        """What to expect before measurements: the model's history where there is one, else that of unseen models."""
        form = Form.of(job)
        kind = self.kinds.get((job.model, form)) if job.model else None
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

    def learn(self, job: Job, track: Track | None, asked: Setting, trained_seconds: float) -> History:
        """The history after this job has finished."""
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
            # By its own measurements: what is believed already must not confirm itself.
            found = track.fitted(replace(prior, spread=max(prior.spread, PRIOR_SPREAD)))
            kind = kind.scaled_like(job.user, found.coefficients, prior.form, asked, sizes)
        if at_asked is not None and at_asked.spread < 0.3:
            kind = kind.took(job.user, asked.layout.workers, at_asked.seconds)
        targets = self.targets
        if job.target is not None:
            there = self.reached(job).learn(track.metrics, track.step, job.target)
            targets = newest(targets, {(job.model, job.target): there}, MOST_KINDS)
        kinds = newest(self.kinds, {key: kind}, MOST_KINDS)
        return replace(self, kinds=kinds, durations=durations, targets=targets, users=users)

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


@dataclass(frozen=True, slots=True)
class Like:
    """What is known of a group of jobs before they report."""

    lengths: tuple[float, float] | None
    """Steps to the target and their spread, where jobs have reached the same target."""
    step: Guess | None
    """Seconds per step at the requested size."""
    took: Lengths | None
    """Training times of like jobs."""
    memo: dict[float, tuple[float, float]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, job: Job, history: History, nodes: Nodes) -> Like:
        return cls(
            history.reached(job).known(),
            history.step(job, asked_setting(job, nodes)),
            history.durations.told(job),
        )

    def by_steps(self, steps: FloatArray) -> BoolArray:
        """For which jobs steps tell the time left. `steps`: as the user said; NaN where the user did not.

        Where paces of like jobs differ more than their lengths, lengths tell it.
        """
        spread = self._by_steps_spread()
        took = self._took(0.0)
        if spread is None or (took is not None and took[1] < spread):
            return np.zeros(len(steps), np.bool_)
        return ~np.isnan(steps) if self.lengths is None else np.ones(len(steps), np.bool_)

    def _by_steps_spread(self) -> float | None:
        if self.step is None:
            return None
        return self.step.spread if self.lengths is None else math.hypot(self.step.spread, self.lengths[1])

    def new(self, steps: FloatArray) -> tuple[FloatArray, float | FloatArray] | None:
        """Seconds left and spread of jobs that have not trained yet; None where nothing is known."""
        took = self._took(0.0) or (math.nan, math.nan)
        spread, known = self._by_steps_spread(), self.by_steps(steps)
        if self.step is None or spread is None:
            return None if self.took is None else (np.full(len(steps), took[0]), took[1])
        wanted = steps if self.lengths is None else np.fmin(steps, self.lengths[0])
        return np.where(known, wanted * self.step.seconds, took[0]), np.where(known, spread, took[1])

    def going(self, attained: FloatArray, since: FloatArray, trained: FloatArray) -> FloatArray | None:
        """(3, jobs): seconds left, as of when, and spread. A job had trained `attained` at `since`, now `trained`."""
        if self.took is None:
            return None
        found: FloatArray = np.empty((3, len(attained)))
        if len(attained) <= FEW:
            for number, row in enumerate(zip(attained.tolist(), since.tolist(), trained.tolist(), strict=True)):
                found[:, number] = self._going(*row)
            return found
        places = np.where(trained >= 1.0, place_of_all(trained), -1)
        for place in np.unique(places).tolist():
            chosen, begins = places == place, edge_of(place)
            middle, spread = self._took(begins) or (math.nan, math.nan)
            left = middle - np.maximum(0.0, attained[chosen] - begins)
            found[0, chosen] = np.maximum(left, LEAST_LEFT * begins)
            found[1, chosen] = since[chosen] + np.maximum(0.0, begins - attained[chosen])
            found[2, chosen] = spread
        return found

    def _going(self, attained: float, since: float, trained: float) -> tuple[float, float, float]:
        begins = edge_of(place_of(trained) if trained >= 1.0 else -1)
        middle, spread = self._took(begins) or (math.nan, math.nan)
        left = max(middle - max(0.0, attained - begins), LEAST_LEFT * begins)
        return left, since + max(0.0, begins - attained), spread

    def _took(self, begins: float) -> tuple[float, float] | None:
        if self.took is None:
            return None
        known = self.memo.get(begins)
        if known is None:
            known = self.memo[begins] = self.took.left(begins)
        return known


Sources = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Likes:
    """Answers by group, each with what it rests on: it is used again only while that is the very same."""

    answers: dict[int, tuple[History, Sources, Like]] = field(default_factory=dict)

    def copy(self) -> Likes:
        return Likes(self.answers.copy())

    def kept(self, groups: Sequence[int]) -> Likes:
        """The answers of these groups only, numbered anew in this order."""
        known = self.answers
        return Likes({number: known[group] for number, group in enumerate(groups) if group in known})

    def of(self, group: int, job: Job, history: History, nodes: Nodes) -> Like:
        found = self.answers.get(group)
        if found is not None and found[0] is history and found[1][-1] is nodes:
            return found[2]
        sources: Sources = (history.durations, history.kind(job), history.reached(job), nodes)
        if found is None or any(one is not other for one, other in zip(found[1][1:], sources[1:], strict=True)):
            like = Like.of(job, history, nodes)
        elif found[1][0] is not history.durations:
            like = replace(found[2], took=history.durations.told(job), memo={})
        else:
            like = found[2]
        self.answers[group] = (history, sources, like)
        return like


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
