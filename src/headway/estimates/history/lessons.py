"""What jobs that still run have shown of how their model scales.

Example: a job of `bert` has trained on one worker and on four, and has days left. The next job of `bert` is told at
once how `bert` scales, not days later. When a job is over its lesson goes: from then on it has taught by all that it
has shown, or, where it failed, by nothing.

A user's jobs are told what the user's own jobs show; others the median of three users, as by finished jobs (`kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.job import JobId
from headway.estimates.history.by_user import JobCurve, ModelHistory
from headway.estimates.speed.model import Form

MOST = 12
"""Lessons about one model that a job is told, the newest ones. The others stay: a job gives its lesson once."""

ModelForm = tuple[str, Form]
ModelOnType = tuple[str, Form, str]
"""Model, form and accelerator type."""
ModelKey = ModelForm | ModelOnType


@dataclass(frozen=True, slots=True)
class Lessons:
    given: Mapping[ModelKey, Mapping[JobId, JobCurve]] = field(default_factory=dict)
    """One of each running job at most."""
    memo: dict[tuple[ModelKey, str | None], tuple[ModelHistory | None, ModelHistory]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Answers, each with what finished jobs had shown: it is used again while that is the very same."""

    def sizes(self, key: ModelKey, job: JobId) -> int:
        """In how many settings the job had trained when it gave its lesson; 0 where it gave none."""
        lesson = self.given.get(key, {}).get(job)
        return 0 if lesson is None else lesson.sizes

    def keys(self, model: ModelForm, job: JobId) -> list[ModelKey]:
        """Where the lesson of this job counts: among all types of accelerators, and on one."""
        return [key for key, given in self.given.items() if key[:2] == model and job in given]

    def kind(self, key: ModelKey, user: str, finished: ModelHistory | None) -> ModelHistory | None:
        """What finished jobs and these lessons together tell a job of this user; None where there is no lesson."""
        given = self.given.get(key, {}).values()
        own = user if any(one.user == user for one in given) else None
        known = self.memo.get((key, own))
        if known is not None and known[0] is finished:
            return known[1]
        if not given:
            return None
        kind = ModelHistory() if finished is None else finished
        newest_by_user = list({one.user: one for one in given}.values())
        told = [one for one in given if one.user == own] if own is not None else newest_by_user
        kind = kind.scaled_by(told[-MOST:], key[1])
        self.memo[key, own] = (finished, kind)
        return kind

    def with_lesson(self, key: ModelKey, job: JobId, lesson: JobCurve) -> Lessons:
        return self._with(key, {**self.without(key, job).given.get(key, {}), job: lesson})

    def without(self, key: ModelKey, job: JobId) -> Lessons:
        """The lessons of other jobs."""
        return self._with(key, {name: one for name, one in self.given.get(key, {}).items() if name != job})

    def _with(self, key: ModelKey, lessons: Mapping[JobId, JobCurve]) -> Lessons:
        given = {other: found for other, found in self.given.items() if other != key}
        memo = {asked: answer for asked, answer in self.memo.items() if asked[0] != key}
        return Lessons({**given, key: lessons} if lessons else given, memo)
