"""The terms of a job: what its user may change while it lives, and what not. Pure.

Example: `kubectl patch tj bert --type=merge -p '{"spec": {"priority": 5}}'` of a job that runs. Priority, deadline and
the sizes of its roles may change, within what the job's queue allows; its commands and its template may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from headway.core.job import Job
from headway.core.restarts import Restarts
from headway.core.text import clean
from headway.jobspec import RoleFields
from headway.kube.api.objects import TrainingJob
from headway.kube.gangs.fault import sentence
from headway.kube.gangs.gang import Gang
from headway.kube.gangs.intent import Allocation
from headway.kube.gangs.messages import Edited
from headway.kube.intake.entitlement import settled
from headway.kube.intake.orders import read_orders
from headway.kube.intake.spec import JobSpec, SpecError, job_of, read_spec
from headway.kube.settings import KubeSettings
from headway.kube.values import replace

MOST_REPLICAS = 10_000
LONGEST_TEXT = 1000
FREE = frozenset({"suspend", "cancel", "ttl_after_finished", "priority", "deadline", "restarts", "roles"})
SIZES = frozenset({"replicas", "min", "max"})


def check_fixed(old: JobSpec, new: JobSpec) -> None:
    """Raises SpecError, in a sentence, if a field has changed that cannot change."""
    for field in _differing(old, new, FREE):
        raise SpecError(f"spec.{field}: cannot be changed while the job lives; submit another")
    if old.roles.keys() != new.roles.keys():
        raise SpecError("spec.roles: roles cannot be added or removed while the job lives; submit another")
    for name, role in new.roles.items():
        for field in _differing(old.roles[name], role, SIZES):
            raise SpecError(f"spec.roles.{name}.{field}: cannot be changed while the job lives; submit another")


def _differing(old: JobSpec | RoleFields, new: JobSpec | RoleFields, free: frozenset[str]) -> list[str]:
    names = [name for name in type(old).__struct_fields__ if name not in free]
    return [name for name in names if getattr(old, name) != getattr(new, name)]


def under(job: Job, terms: Job) -> Job:
    """The job with the priority, deadline, restarts and sizes of `terms`; its pods stay as they are known to be."""
    asked = {role.name: role for role in terms.roles}
    roles = tuple(
        replace(role, replicas=found.replicas, min=found.min, max=found.max)
        for role in job.roles
        if (found := asked[role.name])
    )
    return replace(
        job, priority=terms.priority, deadline=terms.deadline, queue=terms.queue, restarts=terms.restarts, roles=roles
    )


def edited(gang: Gang, found: TrainingJob, settings: KubeSettings) -> Edited:
    """What a gang is told of its object as it is now. A change that is refused is told, and the old terms go on."""
    orders, raw = read_orders(found.spec), bytes(found.spec)
    if raw == gang.terms.raw:
        return Edited(orders, raw)
    try:
        spec = read_spec(raw)
        check_fixed(gang.terms.spec or spec, spec)
        job = job_of(found, spec, settings.began)
        asked = settled(job, found.metadata, spec.template, settings.claims, earlier=False)
    except SpecError as error:
        return Edited(orders, raw, refused=clean(f"{error}; the job goes on as it was", LONGEST_TEXT))
    except Exception as error:  # noqa: BLE001  one object must not end all others
        return Edited(orders, raw, refused=sentence("read the change of this job", error))
    return Edited(orders, raw, spec, asked)


def pending(gang: Gang, asked: Job) -> Job | None:
    """The job as its spec asks for it, if it was taken over with sizes that allow its present gang; else None."""
    if gang.terms.refused:
        return None
    wanted = under(gang.job, asked)
    wanted = replace(wanted, priority=gang.job.priority, deadline=gang.job.deadline, queue=gang.job.queue)
    return None if wanted == gang.job else wanted


def has_room(job: Job, counts: Mapping[str, int]) -> bool:
    """Whether a gang of these counts is one that the job allows."""
    return all(role.min <= counts.get(role.name, 0) <= role.max for role in job.roles)


def stretched(job: Job, allocation: Allocation | None) -> Job:
    """The job with sizes that allow the gang that it has. Its user changed them, and it has not been stopped yet."""
    counts = {share.role: len(share.nodes) for share in allocation or ()}
    if not counts or has_room(job, counts) or max(counts.values()) > MOST_REPLICAS:
        return job
    roles = tuple(
        replace(role, min=min(role.min, count), max=max(role.max, count))
        if (count := counts.get(role.name)) is not None
        else role
        for role in job.roles
    )
    return replace(job, roles=roles)


# ── kept in the status while a change is refused ──


def written_terms(job: Job) -> dict[str, Any]:
    return {
        "priority": job.priority,
        "deadline": None if job.deadline is None else job.deadline - job.submit,
        "sizes": {role.name: [role.replicas, role.min, role.max] for role in job.roles},
        "restarts": asdict(job.restarts),
    }


class _KeptRestarts(msgspec.Struct, frozen=True):
    losses: Annotated[int, msgspec.Meta(ge=0)] | None = None
    window: Annotated[float, msgspec.Meta(ge=0)] | None = None
    refusals: Annotated[int, msgspec.Meta(ge=0)] | None = None


class KeptTerms(msgspec.Struct, frozen=True):
    """The terms under which a job goes on although its spec says something else."""

    priority: int = 0
    deadline: float | None = None
    sizes: dict[str, tuple[int, int, int]] = {}
    restarts: _KeptRestarts | None = None
    """None in a status of an earlier version."""

    def of(self, job: Job) -> Job:
        """The job under these terms. A role that they do not name stays as it is."""
        roles = tuple(
            replace(role, replicas=sizes[0], min=sizes[1], max=sizes[2])
            if (sizes := self.sizes.get(role.name)) is not None and 0 <= sizes[1] <= sizes[0] <= sizes[2]
            else role
            for role in job.roles
        )
        deadline = None if self.deadline is None else job.submit + self.deadline
        restarts = job.restarts if self.restarts is None else Restarts(**msgspec.structs.asdict(self.restarts))
        return replace(job, priority=self.priority, deadline=deadline, roles=roles, restarts=restarts)
