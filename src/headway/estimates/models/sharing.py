"""How the jobs on a node share its cpu, and when each of them will be done there.

Requests are guaranteed. Spare cpu is split among the jobs whose limit is above their request, in proportion to their
requests, as a kernel does. What a job cannot use because of its limit goes to the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """Equal replicas on one node: the request and the limit of each, in thousandths of a core."""

    request: float
    limit: float
    count: int = 1

    @property
    def room(self) -> float:
        """How far the limit is above the request, as a multiple of the request."""
        return max(0.0, self.limit - self.request) / max(1.0, self.request)

    def part(self, level: float) -> float:
        """The cpu of one replica at this level: its request, plus `level` times its request, up to its limit."""
        return self.request + min(level, self.room) * max(1.0, self.request)

    def speed(self, part: float, parallel: float) -> float:
        """The speed that this much cpu gives; `parallel` is the share of the work that gains from more cpu (Amdahl)."""
        asked = max(1.0, self.request)
        return part if part <= asked or parallel >= 1.0 else asked / ((1.0 - parallel) + parallel * asked / part)


def level(capacity: float, claims: Sequence[Claim]) -> float:
    """The factor by which each job may exceed its request before it reaches its limit."""
    spare = capacity - sum(claim.request * claim.count for claim in claims)
    reached = 0.0
    open_ = sorted((claim for claim in claims if claim.room > 0), key=lambda claim: claim.room)
    weight = sum(max(1.0, claim.request) * claim.count for claim in open_)
    for claim in open_:
        step = claim.room - reached
        if spare < step * weight:
            break
        spare, reached = spare - step * weight, claim.room
        weight -= max(1.0, claim.request) * claim.count
    else:
        return reached
    return reached + max(0.0, spare) / weight


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job on a node: its claim there, and the work that it has left there."""

    claim: Claim
    work: float
    """Thousandths of a core times seconds, if all cpu were useful."""
    begins: float = 0.0
    """Seconds from now until the job trains here."""


def ends(capacity: float, tenants: Sequence[Tenant], parallel: float = 1.0) -> list[float]:
    """Seconds from now until each job is done, if no other job arrives."""
    left, done, now = [tenant.work for tenant in tenants], [math.inf] * len(tenants), 0.0
    waits = sorted({tenant.begins for tenant in tenants if tenant.begins > 0.0})
    open_ = [number for number, work in enumerate(left) if math.isfinite(work)]
    endless = [tenant.claim for tenant, work in zip(tenants, left, strict=True) if math.isinf(work)]
    while open_:
        here = [number for number in open_ if tenants[number].begins <= now]
        reached = level(capacity, [*endless, *(tenants[number].claim for number in here)])
        rates = {number: tenants[number].claim.speed(tenants[number].claim.part(reached), parallel) for number in here}
        upto = min((left[number] / rate for number, rate in rates.items() if rate > 0), default=math.inf)
        following = next((at - now for at in waits if at > now), math.inf)
        step = min(upto, following)
        if math.isinf(step):
            break
        now += step
        for number, rate in rates.items():
            left[number] -= rate * step
            if left[number] <= 1e-9 * max(1.0, tenants[number].work):
                done[number] = now
        open_ = [number for number in open_ if math.isinf(done[number])]
    return done
