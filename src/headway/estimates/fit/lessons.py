"""What jobs that still run have shown of how their model scales.

Example: a job of `bert` has trained on one worker and on four, and has days left. The next job of `bert` is told at
once how `bert` scales, not days later. When a job is over its lesson goes: from then on it has taught by all that it
has shown, or, where it failed, by nothing.

What a job showed is borne out by its end, and before that it may be a lie. So jobs of the same user are told, and jobs
of others once a few jobs of that user have ended as they had promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.job import JobId
from headway.estimates.fit.kinds import JobCurve, Kind
from headway.estimates.fit.speed import Form

MOST = 12
"""Lessons about one model that a job is told, the newest ones. The others stay: a job gives its lesson once."""

ModelForm = tuple[str, Form]
ModelOnType = tuple[str, Form, str]
"""Model, form and accelerator type."""
KindKey = ModelForm | ModelOnType


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one job has shown so far."""

    curve: JobCurve
    trusted: bool = False
    """Whether jobs of other users are told, too."""


@dataclass(frozen=True, slots=True)
class Lessons:
    given: Mapping[KindKey, Mapping[JobId, Lesson]] = field(default_factory=dict)
    """One of each running job at most."""
    memo: dict[tuple[KindKey, str], tuple[Kind | None, Kind]] = field(default_factory=dict, compare=False, repr=False)
    """Answers, each with what finished jobs had shown: it is used again while that is the very same."""

    def sizes(self, key: KindKey, job: JobId) -> int:
        """In how many settings the job had trained when it gave its lesson; 0 where it gave none."""
        lesson = self.given.get(key, {}).get(job)
        return 0 if lesson is None else lesson.curve.sizes

    def keys(self, model: ModelForm, job: JobId) -> list[KindKey]:
        """Where the lesson of this job counts: among all types of accelerators, and on one."""
        return [key for key, given in self.given.items() if key[:2] == model and job in given]

    def kind(self, key: KindKey, user: str, finished: Kind | None) -> Kind | None:
        """What finished jobs and these lessons together tell a job of this user; None where no lesson is for it."""
        known = self.memo.get((key, user))
        if known is not None and known[0] is finished:
            return known[1]
        told = [one for one in self.given.get(key, {}).values() if one.trusted or one.curve.user == user]
        if not told:
            return None
        kind = Kind() if finished is None else finished
        kind = kind.scaled_by((one.curve for one in told[-MOST:]), key[1])
        self.memo[key, user] = (finished, kind)
        return kind

    def with_lesson(self, key: KindKey, job: JobId, lesson: Lesson) -> Lessons:
        return self._with(key, {**self.without(key, job).given.get(key, {}), job: lesson})

    def without(self, key: KindKey, job: JobId) -> Lessons:
        """The lessons of other jobs."""
        return self._with(key, {name: one for name, one in self.given.get(key, {}).items() if name != job})

    def _with(self, key: KindKey, lessons: Mapping[JobId, Lesson]) -> Lessons:
        given = {other: found for other, found in self.given.items() if other != key}
        memo = {asked: answer for asked, answer in self.memo.items() if asked[0] != key}
        return Lessons({**given, key: lessons} if lessons else given, memo)
