"""How much faster a model is on one type of accelerators than on another.

Example: nodes have V100s and K80s. Two jobs of `resnet` have run on both and were 4 times as fast on a V100; published
is 4.7 times for all models. The next job of `resnet` is believed to be 4.3 times as fast there. A job that was measured
on a type is believed to be as it was measured.

What is believed is a number for each type, the logarithm of seconds per step up to a constant. It starts from published
speeds, leaves them as jobs of any model run on two types, and leaves that as jobs of the same model do.

A job says nothing beyond four times what was believed, so the jobs of a model move it no further, however many. All
models together move another by less than that. The jobs of another user count as one job together, those of several
models as one model; those that name no user have nothing to do with each other. A job that names no model counts as a
model of its own: jobs that name none follow each other as far as other models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headway.core.estimates import OnTypes
from headway.core.job import JobId
from headway.core.node import FloatArray
from headway.estimates.models.coefficients import BUILT_IN
from headway.estimates.models.scaling import RELATIVE_SPEED
from headway.estimates.speed.accelerators import product

MOST_MODELS, MOST_JOBS = 200, 12
"""Models, and jobs of each, that are remembered: those that showed something last."""
RIDGE = 1.0
"""What was believed before counts as much as this many jobs."""
ALONG = 4.0
"""A model that gains much from one type gains much from others, too: so many times as likely as any other deviation."""
FAR = math.log(4.0)
COARSE = 0.05
NEW = 0.02
"""A job that shows a speed anew is listened to from this difference on, as a share."""

Names = tuple[str, ...]
Leaning = tuple[float, ...]


class TypeLesson(NamedTuple):
    user: str
    paces: Mapping[str, float]
    """By type: logarithm of seconds per step."""

    def differs(self, other: TypeLesson) -> bool:
        if self.paces.keys() != other.paces.keys():
            return True
        return any(abs(pace - other.paces[kind]) > NEW for kind, pace in self.paces.items())


@dataclass(frozen=True, slots=True)
class TypeLessons:
    """What jobs have shown that ran on two types or more, by model; the last that showed something last."""

    by_model: Mapping[str, Mapping[JobId, TypeLesson]] = field(default_factory=dict)
    answers: dict[tuple[str, str, Names], Leaning] = field(default_factory=dict, init=False, compare=False, repr=False)
    """By model, user and types. As long as an answer is the same it is the same object."""
    shifts: dict[tuple[str, Names], FloatArray] = field(default_factory=dict, init=False, compare=False, repr=False)
    """How far jobs of all other models together have moved what is published, by model; empty: of all models."""
    alone: dict[tuple[str, Names], FloatArray] = field(default_factory=dict, init=False, compare=False, repr=False)
    """The same of one model; by job, of those that name no model."""

    @classmethod
    def of(cls, told: Iterable[tuple[str, JobId, TypeLesson]]) -> TypeLessons:
        """The lessons after models' jobs have shown these, in this order."""
        by_model: dict[str, dict[JobId, TypeLesson]] = {}
        for model, job, lesson in told:
            by_model.setdefault(model, {})[job] = lesson
        return cls({
            model: dict(list(jobs.items())[-MOST_JOBS:]) for model, jobs in list(by_model.items())[-MOST_MODELS:]
        })  # fmt: skip

    def heard(self, model: str, job: JobId, lesson: TypeLesson) -> TypeLessons:
        """The lessons after a job has shown this; the same object where that is nothing new."""
        before = self.by_model.get(model, {}).get(job)
        if before is not None and not before.differs(lesson):
            return self
        others = {name: one for name, one in self.by_model.get(model, {}).items() if name != job}
        return self._with(model, dict([*others.items(), (job, lesson)][-MOST_JOBS:]))

    def without(self, model: str, job: JobId) -> TypeLessons:
        """The lessons without what this job has shown; the same object where that is nothing."""
        told = self.by_model.get(model, {})
        return self._with(model, {name: one for name, one in told.items() if name != job}) if job in told else self

    def _with(self, model: str, jobs: Mapping[JobId, TypeLesson]) -> TypeLessons:
        models = [(name, one) for name, one in self.by_model.items() if name != model]
        found = TypeLessons(dict([*models, (model, jobs)][-MOST_MODELS:] if jobs else models))
        found._keep_from(self, model)
        return found

    def leaning(self, model: str, user: str, names: Names) -> Leaning:
        """By type: logarithm of seconds per step, up to a constant."""
        own = user if user and any(one.user == user for one in self.by_model.get(model, {}).values()) else ""
        key = (model, own, names)
        known = self.answers.get(key)
        if known is None:
            found: FloatArray = published(model, names) + self._shift(model, own, names)
            known = self.answers[key] = tuple(found.tolist())
        return known

    def _shift(self, model: str, user: str, names: Names) -> FloatArray:
        """How far jobs that ran on several types have moved what is believed."""
        overall = self._overall(model, names)
        told = self.by_model.get(model)
        if not model or not told:
            return overall
        prior = published(model, names) + overall
        return overall + _moved(list(told.values()), user, names, prior)

    def _overall(self, model: str, names: Names) -> FloatArray:
        """The same for all other models together, rounded, so that not every report changes it."""
        key = (model if model in self.by_model else "", names)
        known = self.shifts.get(key)
        if known is None:
            found: FloatArray = np.zeros(len(names))
            weight, weights = 0.0, self._weights_of_models()
            for other, told in self.by_model.items():
                if model and other == model:
                    continue
                shift = self.alone.get((other, names))
                if shift is None:
                    prior = published(other, names)
                    shifts = [_moved(group, "", names, prior) for group in _groups(other, told)]
                    shift = self.alone[other, names] = np.array(shifts)
                found += weights[other] @ shift
                weight += float(weights[other].sum())
            known = self.shifts[key] = np.round(found / (weight + RIDGE) / COARSE) * COARSE
        return known

    def _weights_of_models(self) -> Mapping[str, FloatArray]:
        """All models of a user together count as one, unless others have shown something of them, too."""
        users = {
            model: [{one.user for one in group} for group in _groups(model, told)]
            for model, told in self.by_model.items()
        }
        models = Counter(user for groups in users.values() for group in groups for user in group)
        return {
            model: np.array([min(1.0, sum(1.0 / models[user] if user else 1.0 for user in group)) for group in groups])
            for model, groups in users.items()
        }

    def _keep_from(self, before: TypeLessons, model: str) -> None:
        """Answers about other models hold on while all models together say the same."""
        self.alone.update({key: shift for key, shift in before.alone.items() if key[0] != model})
        for key, answer in before.answers.items():
            of, names = key[0], key[2]
            if of != model and np.array_equal(before._overall(of, names), self._overall(of, names)):
                self.answers[key] = answer


def _groups(model: str, told: Mapping[JobId, TypeLesson]) -> list[list[TypeLesson]]:
    """Jobs of one model. One that names no model is like no other: it counts as a model of its own."""
    return [list(told.values())] if model else [[one] for one in told.values()]


def _moved(lessons: list[TypeLesson], user: str, names: Names, prior: FloatArray) -> FloatArray:
    """The least squares of what jobs have shown, with a ridge towards the prior."""
    seen = np.array([[one.paces.get(kind, math.nan) for kind in names] for one in lessons])
    there = np.isfinite(seen)
    count = there.sum(axis=1)
    several = count > 1
    if not several.any():
        return np.zeros(len(names))
    lessons = [one for one, use in zip(lessons, several.tolist(), strict=True) if use]
    seen, there, count = seen[several], there[several].astype(np.float64), count[several]
    off = np.where(there > 0, seen - prior, 0.0)
    off -= there * (off.sum(axis=1) / count)[:, None]
    off *= (FAR / np.maximum(np.ptp(off, axis=1), FAR))[:, None]
    weight = _weights(lessons, user)
    normal = np.diag(weight @ there) - (there * (weight / count)[:, None]).T @ there + RIDGE * _stiffness(prior)
    found: FloatArray = np.linalg.solve(normal, weight @ off)
    return found


def _stiffness(prior: FloatArray) -> FloatArray:
    """How much deviations from the prior are held back: less along it."""
    along = prior - prior.mean()
    length = float(along @ along)
    stiff: FloatArray = np.eye(len(prior))
    return stiff - ALONG / (1.0 + ALONG) * np.outer(along, along) / length if length > 0 else stiff


def _weights(lessons: list[TypeLesson], user: str) -> FloatArray:
    """All jobs of another user together count as one."""
    jobs: dict[str, int] = {}
    for one in lessons:
        jobs[one.user] = jobs.get(one.user, 0) + 1
    return np.array([1.0 if one.user in ("", user) else 1.0 / jobs[one.user] for one in lessons])


def published(model: str, names: Names) -> FloatArray:
    """What is published: of the model where there is something, else of all models together. Of a type of which nothing
    is, it is the mean of the others.
    """
    profile = BUILT_IN.get(model)
    own = profile.accelerators if profile is not None else {}
    speeds = [own.get(known := product(kind)) or RELATIVE_SPEED.get(known, math.nan) for kind in names]
    told = -np.log(np.array(speeds))
    return np.where(np.isnan(told), told[~np.isnan(told)].mean() if not np.isnan(told).all() else 0.0, told)


def on_types(names: Names, leaning: Leaning, own: Mapping[str, float], reference: float | str) -> OnTypes:
    """How long a job takes on each type.

    `own`: by type, as the job was measured. `reference`: the pace, a logarithm too, at which the time left is told; or
    the type on which it is, empty for the fastest.
    """
    if isinstance(reference, str):
        here = leaning[names.index(reference)] if reference in names else min(leaning)
        pace: Sequence[float] = leaning
    else:
        known = [own[kind] - lean for kind, lean in zip(names, leaning, strict=True) if kind in own]
        known = known or (np.array(list(own.values())) - published("", tuple(own))).tolist()  # of nodes that are gone
        level, here = sum(known) / len(known), reference
        pace = [own.get(kind, lean + level) for kind, lean in zip(names, leaning, strict=True)]
    return OnTypes(tuple([math.exp(round(one - here, 2)) for one in pace]), tuple([kind in own for kind in names]))
