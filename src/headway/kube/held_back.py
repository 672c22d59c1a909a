"""Jobs that wait until it is known how their pods will be: nothing is held for them before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.kube.api.objects import Meta, TrainingJob
from headway.kube.rehearsal import Rehearsals, Rehearsed
from headway.kube.worker import ApiWorker


@dataclass(slots=True)
class HeldBack:
    worker: ApiWorker
    rehearsals: Rehearsals
    jobs: dict[str, TrainingJob] = field(default_factory=dict)
    """By uid."""
    _waiting_for: dict[str, set[str]] = field(default_factory=dict)
    """By the key of a rehearsal: the uids of such jobs."""

    def hold(self, found: TrainingJob, bodies: Mapping[str, dict[str, Any]], after: float = 0.0) -> None:
        """The job waits for these dry runs, by key; they are asked for after so many seconds."""
        self.jobs[found.metadata.uid] = found
        for key in bodies:
            self._waiting_for.setdefault(key, set()).add(found.metadata.uid)
        self.ask(found.metadata, bodies, after)

    def ask(self, meta: Meta, bodies: Mapping[str, dict[str, Any]], after: float = 0.0) -> None:
        for key in bodies.keys() - self.rehearsals.asked.keys():
            self.rehearsals.asked[key] = after
            self.worker.rehearse(key, meta.namespace, bodies[key], after)

    def answered(self, answer: Rehearsed) -> list[TrainingJob]:
        """The jobs that waited for this answer."""
        if not self.rehearsals.take(answer):
            return []
        return [self.jobs.pop(uid) for uid in self._waiting_for.pop(answer.key, ()) if uid in self.jobs]

    def keep(self, uids: set[str]) -> None:
        """Others are gone."""
        self.jobs = {uid: found for uid, found in self.jobs.items() if uid in uids}
