"""What is sent to the API server about a job: its status if it changed, then requests about its pods."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from headway.core.job import Job, JobId
from headway.core.plan import Plan
from headway.core.reason import Code, Reasons
from headway.core.snapshot import Snapshot
from headway.core.states import OVER, TRAINING
from headway.kube.fence import FAULT, sentence
from headway.kube.job.intent import Intent
from headway.kube.job.pod_marks import MARK
from headway.kube.job.pods import body_of
from headway.kube.job.status import progress_status, status_of
from headway.kube.job.terms import written_terms
from headway.kube.pod.conditions import QUOTA_USED, camel
from headway.kube.reconcile.model import ApiRefusal, Create, NextStep
from headway.kube.settings import KubeSettings, PodDefaults
from headway.kube.tracked import Tracked
from headway.kube.work import ApiWork, PodRequest

MAX_LOOKED_AT = 200
"""Waiting jobs per cycle of which the reason is asked, each in its turn. A long queue must not slow decisions down."""
MAX_EXPLAINED = 20
"""Of these, jobs whose status is written."""
MANY = 500
"""Where more jobs wait than this, their numbers are written less often."""


def status_for(job: Tracked, intent: Intent, shown: Snapshot | None, now: float, began: float) -> dict[str, Any]:
    """The job's whole status: what a restarted scheduler needs, and what users want to see.

    `shown` is the last snapshot with estimates: the status shows the estimate that policies see.
    """
    row = None if shown is None else shown.jobs.row_of.get(job.job.id)
    estimate = None
    if shown is not None and row is not None and row < shown.jobs.count and intent.state not in OVER:
        estimate = shown.estimates.of(row, now)
    status, training = status_of(intent, job.columns(), job.savers, began), intent.state in TRAINING
    status["usage"] = _usage(job) if training else None
    refused = {"refused": job.change_refused or None, "terms": written_terms(job.job) if job.change_refused else None}
    shown_progress = progress_status(job.reports.progress, estimate, now, began, training=training)
    return status | refused | {"progress": shown_progress}


def _usage(job: Tracked) -> dict[str, str] | None:
    """As Kubernetes writes amounts; of all replicas together."""
    if job.usage is None:
        return None
    return {"cpu": f"{round(1000 * job.usage.cores)}m", "memory": f"{job.usage.memory}Mi"}


def work_for(
    job: Tracked, intent: Intent, status: dict[str, Any] | None, step: NextStep, defaults: PodDefaults
) -> ApiWork | None:
    """The status, then a request for each action; None if there is nothing to send."""
    requests = tuple(_requests(job, step, defaults))
    if status is None and not requests:
        return None
    meta = job.meta
    return ApiWork(meta.uid, meta.namespace, meta.name, status, requests, (intent, job.reports.progress))


def _requests(job: Tracked, step: NextStep, defaults: PodDefaults) -> Iterator[PodRequest]:
    for action in step.actions:
        try:
            body = body_of(action, job.job, job.meta, job.template, defaults)
            if isinstance(action, Create) and body is not None:
                body["metadata"]["annotations"][MARK] = job.marks.of(job.meta, action.name, action.node)
        except Exception as error:  # noqa: BLE001  it comes from the job's own template, and would come again
            job.refusal, job.attention.dirty = ApiRefusal(sentence("make its pods", error), permanent=True), True
            continue
        if body is not None:
            yield PodRequest(action, body)


class Explainable(Protocol):
    """A job that can be told why it waits."""

    job: Job
    explained_at: float
    looked_at: float

    @property
    def waits(self) -> bool: ...
    @property
    def said(self) -> tuple[str, str]:
        """The reason and the sentence that it was told last."""

    def explain(self, reason: str, message: str, now: float) -> None: ...


def explain_waiting(
    by_id: Mapping[JobId, Explainable], snapshot: Snapshot, plan: Plan, now: float, settings: KubeSettings
) -> None:
    """Says in the status of waiting jobs why they wait, with numbers.

    Another reason is said at once. Other numbers are said of one job at most once per `every` seconds, and less often
    where many wait.
    """
    rows = snapshot.jobs.waiting()
    waiting = [job for row in rows if (job := by_id.get(snapshot.jobs.job(int(row)).id)) is not None]
    waiting = [job for job in waiting if job.waits]
    if not waiting:
        return
    every = settings.progress_seconds * max(1.0, len(waiting) / MANY)
    reasons, beyond, left = Reasons(snapshot, plan), settings.quotas(snapshot), MAX_EXPLAINED
    for job in heapq.nsmallest(MAX_LOOKED_AT, waiting, key=lambda job: job.looked_at):
        job.looked_at = now
        left -= _explained(job, lambda job: _reason(job, snapshot, reasons, beyond), now, every)
        if left == 0:
            return


def _explained(job: Explainable, why: Callable[[Explainable], tuple[str, str]], now: float, every: float) -> bool:
    """Says why this job waits, if that is news."""
    try:
        reason, message = why(job)
    except Exception as error:  # noqa: BLE001  why it waits matters less than that all others go on
        reason, message = FAULT, sentence("say why this job waits", error)
    if not reason:
        return False
    old_reason, old_message = job.said
    if reason == old_reason and (message == old_message or now - job.explained_at < every):
        return False
    job.explain(reason, message, now)
    return True


def _reason(job: Explainable, snapshot: Snapshot, reasons: Reasons, beyond: Callable[[int], str]) -> tuple[str, str]:
    """Nothing if it starts now. What its queue may hold comes first: more nodes would not help then."""
    found = reasons.of(job.job.id)
    if found.code is Code.STARTS_NOW:
        return "", ""
    if full := beyond(snapshot.jobs.row_of[job.job.id]):
        return QUOTA_USED, full
    return camel(found.code), found.sentence
