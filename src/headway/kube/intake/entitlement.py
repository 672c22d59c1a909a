"""What a submitter claims beyond resources, held to what the administrator allows. Pure.

Example: queue `research` allows priorities up to 10. A TrainingJob of team-a with priority 11 ends Failed, and its
status names the field. A job that was admitted before the rule was made goes on with priority 10.

`spec.user` counts where the cluster records who submits (`api/discovery.py`). Elsewhere it is only what somebody typed:
then a job belongs to its namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.core.job import Job
from headway.core.queue_rules import ClaimRefused, QueueClaim, allowed_queue, held_to
from headway.kube.api.objects import Meta, unix
from headway.kube.intake.spec import SpecError
from headway.kube.intake.template_rules import TemplateRefused, check_rules
from headway.kube.settings import ClaimSettings, PodDefaults
from headway.kube.values import replace


def settled(job: Job, meta: Meta, template: Mapping[str, Any], claims: ClaimSettings, *, earlier: bool) -> Job:
    """The job with the user and the queue that count. `earlier`: it was admitted before. Raises SpecError."""
    if not earlier and (why := claims.limits.refusal(job.restarts)):
        raise SpecError(f"spec.restarts.{why}, as the administrator says")
    job = replace(job, user=_user(job, meta, claims))
    claim = QueueClaim(
        queue=job.queue, priority=job.priority, has_deadline=job.deadline is not None,
        priority_class=_priority_class(template), namespace=meta.namespace,
    )  # fmt: skip
    try:
        return replace(job, queue=allowed_queue(claims.queues, claim))
    except ClaimRefused as refused:
        if earlier:
            return held_to(claims.queues, job, meta.namespace)
        raise SpecError(f"spec.{refused}") from refused


def check_own_template(job: Job, own: Mapping[str, Any], pods: PodDefaults) -> None:
    """Raises SpecError if the job sets a field of its pods that the administrator has not left to jobs."""
    try:
        check_rules(job, own, pods.rules)
    except TemplateRefused as refused:
        raise SpecError(f"spec.{refused}") from refused


def _user(job: Job, meta: Meta, claims: ClaimSettings) -> str:
    since = claims.users_since
    recorded = since is not None and unix(meta.creationTimestamp) >= since
    return job.user if recorded and job.user else meta.namespace


def _priority_class(template: Mapping[str, Any]) -> str:
    spec = template.get("spec")
    name = spec.get("priorityClassName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""
