"""How speed grows with replicas, where nothing better is known of a job."""

from __future__ import annotations

from headway.core.job import Job

PARALLEL = 0.9
"""Share of the work that more replicas divide among them."""


def computes(role: str) -> bool:
    """Parameter servers serve; everyone else trains."""
    return role != "ps"


def plain_speed(job: Job, counts: tuple[int, ...], parallel: float = PARALLEL) -> float:
    """Amdahl's law over the replicas that compute, relative to the asked-for size; zero below the gang's minimum."""
    if any(count < role.least for role, count in zip(job.roles, counts, strict=True)):
        return 0.0
    asked = sum(role.replicas for role in job.roles if computes(role.name))
    now = sum(count for role, count in zip(job.roles, counts, strict=True) if computes(role.name))
    if now == asked or not asked:
        return 1.0
    return 1.0 / ((1.0 - parallel) + parallel * asked / now) if now else 0.0
