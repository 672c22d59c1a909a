"""Jobs that wait are rehearsed again when something has changed that changes pods as they are made.

Example: a mesh is installed while a hundred jobs wait. From now on its webhook adds a sidecar of 2 cpu to every pod, so
the jobs are booked with it from now on. One dry run for each template shows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.kube.api.objects import TrainingJob
from headway.kube.held_back import HeldBack
from headway.kube.pod.constraints import Unplaceable
from headway.kube.pod_rules import PodRules, RuleNews
from headway.kube.reconcile.model import ApiRefusal
from headway.kube.rehearsal import Rehearsals, Rehearsed
from headway.kube.tracked import Tracked

AGAIN_SECONDS = 30.0
"""After this a dry run that had no answer is tried again."""


@dataclass(slots=True)
class Recasting:
    rehearsals: Rehearsals
    held_back: HeldBack
    rules: PodRules = field(default_factory=PodRules)
    _again: dict[str, set[str]] = field(default_factory=dict)
    """By the key of a dry run: the uids of jobs that were asked for again."""

    def changed(self, news: RuleNews, jobs: Iterable[Tracked]) -> bool:
        """Asks again how pods of the jobs that wait will be; False if nothing has changed."""
        namespaces = self.rules.take(news)
        if not namespaces:
            return False
        self.rehearsals.forget()
        for job in jobs:
            if job.waits and (job.meta.namespace in namespaces or "" in namespaces):
                self.held_back.ask(job.meta, self.rehearsals.missing(job.parts))
                for part in job.parts:
                    self._again.setdefault(part.key, set()).add(job.meta.uid)
        return True

    def answered(self, answer: Rehearsed, jobs: Mapping[str, Tracked], late: Iterable[TrainingJob] = ()) -> None:
        """Tells the jobs that were asked for again how their pods will be. One that cannot be honoured fails.

        `late` are those that wait for their first answer. Where the server could not answer, as with a full quota,
        it is asked again after a while.
        """
        if answer.key not in self.rehearsals.known:
            return
        waiting = [jobs[uid] for uid in self._again.pop(answer.key, ()) if uid in jobs and jobs[uid].waits]
        metas = [*(job.meta for job in waiting), *(found.metadata for found in late)]
        if answer.pod is None and metas:
            self._again[answer.key] = {meta.uid for meta in metas}
            self.held_back.ask(metas[0], self.rehearsals.body(answer.key), AGAIN_SECONDS)
        for job in waiting:
            if self.rehearsals.missing(job.parts):
                continue  # of several answers the last decides
            job.attention.dirty = True
            try:
                job.recast = self.rehearsals.cast(job.job, job.parts)
            except Unplaceable as error:
                if not error.passing:
                    job.refusal = ApiRefusal(f"spec.template.{error}", permanent=True)
