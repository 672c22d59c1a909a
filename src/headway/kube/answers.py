"""Takes in what became of the requests about a job: its status written or not, its pods made, bound and deleted."""

from __future__ import annotations

import logging
from dataclasses import replace

from headway.kube.api.errors import (
    ApiError,
    Conflict,
    Denied,
    Faulty,
    Forbidden,
    Invalid,
    NotFound,
    OverQuota,
    Unreachable,
)
from headway.kube.fence import Fence
from headway.kube.inventory import Inventory
from headway.kube.job.intent import NAME_TAKEN, QUOTA_FULL, Intent
from headway.kube.job.status import TrainingProgress
from headway.kube.reconcile.model import ApiRefusal, Bind, Create, Delete, Publish, Release, ResizePod
from headway.kube.tracked import Tracked
from headway.kube.work import ActionResult, Performed

log = logging.getLogger("headway.kube")
Written = tuple[Intent, TrainingProgress | None]
"""What a whole status holds; it comes back with the answer."""


def take_answer(job: Tracked, message: Performed, inventory: Inventory, fence: Fence) -> None:
    now, token = fence.now(), message.work.token
    job.attention.busy, job.attention.dirty = False, True
    if isinstance(message.error, Invalid | Faulty) and token is not None:
        fence.take(job, f"its status cannot be written: {message.error}"[:500])
    elif message.error is not None:
        trouble(job, message.error, now)
    elif token is not None:
        job.faults = 0
        if message.work.status is not None:
            job.written, job.reports.written = token
    with fence.of(job, "take in what became of its pods"):
        for result in message.results:
            if result.pod is not None:
                inventory.see_pod(result.pod, {job.meta.uid: job})
            learn(job, result, now)
    if message.error is None and not any(result.error for result in message.results) and not job.faults:
        job.attention.recovered()


def trouble(job: Tracked, error: ApiError, now: float) -> None:
    """A request failed for now: logs that once, and tries again later."""
    if not job.attention.troubled:
        log.warning("job %s: a request failed and will be tried again: %s", job.job.id, error)
    job.attention.put_off(error, now)


def learn(job: Tracked, result: ActionResult, now: float) -> None:
    """Takes in the result of an action, as far as the pods themselves will not show it."""
    action, error = result.action, result.error
    if isinstance(action, Delete) and result.gone:
        job.lose(action.uid)
    if isinstance(action, Bind) and error is None and action.uid in job.replicas:
        job.replicas[action.uid] = replace(job.replicas[action.uid], bound=True)
    if isinstance(action, Publish) and error is None:
        job.published = job.memory.attempt
    if isinstance(action, Release) and error is None:
        job.released.add(action.name)
    if error is None:
        return
    if isinstance(action, Bind | ResizePod) and isinstance(error, NotFound):
        job.lose(action.uid)  # it was deleted meanwhile: the gang lacks it
    elif isinstance(error, Unreachable | Forbidden) or not isinstance(
        action, Publish | Release | Create | Bind | ResizePod
    ):
        trouble(job, error, now)
    else:
        permanent = isinstance(error, Invalid | Denied) and isinstance(action, Create)
        what = "service" if isinstance(action, Publish) else "configmap" if isinstance(action, Release) else "pod"
        verb = type(action).__name__.removesuffix("Pod").lower()
        why = f"{verb} of {what} {action.name} was refused: {error.message}"[:500]
        in_the_way = isinstance(error, Conflict) and isinstance(action, Create)
        if in_the_way:
            why = f"pod {action.name} is in the way: Headway did not make it; the next start has another name"
        waits = NAME_TAKEN if in_the_way else QUOTA_FULL if isinstance(error, OverQuota) else ""
        job.refusal = ApiRefusal(why, permanent, waits)
