"""What jobs that still run have shown of how their model scales.

Example: a job of `bert` has trained on one worker and on four, and has days left. The next job of `bert` is told at
once how `bert` scales, not days later. When a job is over its lesson goes: from then on it has taught by all that it
has shown, or, where it failed, by nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.job import JobId
from headway.estimates.fit.kinds import Kind
from headway.estimates.fit.speed import Coefficients, Form, Setting

MOST = 12
"""Lessons of one model that count, the newest ones."""

ModelForm = tuple[str, Form]
ModelOnType = tuple[str, Form, str]
"""Model, form and accelerator type."""
KindKey = ModelForm | ModelOnType


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one job has shown so far."""

    user: str
    coefficients: Coefficients
    asked: Setting
    sizes: int
    """In how many settings it has trained."""


@dataclass(frozen=True, slots=True)
class Lessons:
    given: Mapping[KindKey, Mapping[JobId, Lesson]] = field(default_factory=dict)
    kinds: Mapping[KindKey, Kind] = field(default_factory=dict)
    """What finished jobs and these together have shown; only of models that have lessons."""

    def sizes(self, key: KindKey, job: JobId) -> int:
        """In how many settings the job had trained when it gave its lesson; 0 where it gave none."""
        lesson = self.given.get(key, {}).get(job)
        return 0 if lesson is None else lesson.sizes

    def keys(self, model: ModelForm, job: JobId) -> list[KindKey]:
        """Where the lesson of this job counts: among all types of accelerators, and on one."""
        return [key for key, given in self.given.items() if key[:2] == model and job in given]

    def with_lesson(self, key: KindKey, job: JobId, lesson: Lesson, finished: Kind | None) -> Lessons:
        """`finished`: what jobs of that model that are over have shown."""
        others = [(name, one) for name, one in self.given.get(key, {}).items() if name != job]
        return self.after(key, {**dict(others[-(MOST - 1) :]), job: lesson}, finished)

    def without(self, key: KindKey, job: JobId, finished: Kind | None) -> Lessons:
        """The lessons of other jobs, after `finished` has changed or this job has left."""
        return self.after(key, {name: one for name, one in self.given.get(key, {}).items() if name != job}, finished)

    def after(self, key: KindKey, lessons: Mapping[JobId, Lesson], finished: Kind | None) -> Lessons:
        """With these lessons of one model."""
        given, kinds = dict(self.given), dict(self.kinds)
        given.pop(key, None)
        kinds.pop(key, None)
        if lessons:
            kind = Kind() if finished is None else finished
            for one in lessons.values():
                kind = kind.scaled_like(one.user, one.coefficients, key[1], one.asked, one.sizes)
            given[key], kinds[key] = lessons, kind
        return Lessons(given, kinds)
