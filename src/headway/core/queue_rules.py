"""What an administrator allows in each queue, and whether what a submitter claims is within it. Pure.

Example: queue `research` is for namespace team-a, with priorities up to 10 and no deadlines. A job of team-b that names
it, or a job with priority 11, is refused with a sentence. A job that names no queue goes to the first queue that its
namespace may use. Where there are no rules, every claim holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.core.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRule:
    """None means: any."""

    name: str
    namespaces: tuple[str, ...] | None = None
    """The namespaces whose jobs may use the queue."""
    highest_priority: int | None = None
    priority_classes: tuple[str, ...] | None = None
    """The PriorityClasses that a job's pods may have."""
    deadlines: bool = True
    """Whether a job may have a deadline."""

    def open_to(self, namespace: str | None) -> bool:
        return namespace is None or self.namespaces is None or namespace in self.namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueClaim:
    """What a submitter asks for beyond resources."""

    queue: str = ""
    priority: int = 0
    has_deadline: bool = False
    priority_class: str = ""
    namespace: str | None = None
    """None where jobs have no namespace."""


class ClaimRefused(ValueError):  # noqa: N818  it names what became of a claim
    """A claim beyond what is allowed, in a sentence that names the field."""


def allowed_queue(rules: Sequence[QueueRule], claim: QueueClaim) -> str:
    """The queue in which the claim holds. Raises ClaimRefused."""
    if not rules:
        return claim.queue
    rule = _queue_of(rules, claim)
    most = rule.highest_priority
    if most is not None and claim.priority > most:
        raise ClaimRefused(f"priority: {claim.priority} is above {most}, the highest that queue {rule.name!r} allows")
    if claim.has_deadline and not rule.deadlines:
        raise ClaimRefused(f"deadline: queue {rule.name!r} allows no deadlines")
    classes = rule.priority_classes
    if claim.priority_class and classes is not None and claim.priority_class not in classes:
        offer = f"; it allows {', '.join(classes)}" if classes else ""
        raise ClaimRefused(
            f"template.spec.priorityClassName: queue {rule.name!r} does not allow {claim.priority_class[:63]!r}{offer}"
        )
    return rule.name


def held_to(rules: Sequence[QueueRule], job: Job, namespace: str | None = None) -> Job:
    """A job that was admitted earlier, held to what its queue allows now: it is not refused any more."""
    named = (rule for rule in rules if rule.name == job.queue or (not job.queue and rule.open_to(namespace)))
    rule = next(named, None)
    if rule is None:
        return job
    most = rule.highest_priority
    priority = job.priority if most is None else min(job.priority, most)
    return replace(job, queue=rule.name, priority=priority, deadline=job.deadline if rule.deadlines else None)


def _queue_of(rules: Sequence[QueueRule], claim: QueueClaim) -> QueueRule:
    mine = [rule for rule in rules if rule.open_to(claim.namespace)]
    found = next((rule for rule in mine if claim.queue in ("", rule.name)), None)
    if found is not None:
        return found
    who = "this job" if claim.namespace is None else f"namespace {claim.namespace!r}"
    offer = f"it may use {', '.join(rule.name for rule in mine)}" if mine else "no queue is open to it"
    if not claim.queue:
        raise ClaimRefused(f"queue: {who} may use no queue; ask the administrator for one")
    raise ClaimRefused(f"queue: {who} may not use {claim.queue[:63]!r}; {offer}")
