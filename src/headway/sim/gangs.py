"""Faults of simulated gangs: refused starts, slow replicas, and replicas that end.

A replica that ends, or whose node fails, is judged by the same gang rule as on a real cluster.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from headway.core.gang import GangVerdict, Phase, ReplicaFact, ReplicaKey, exit_sentence, judge, phase_of_exit
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.restarts import Losses, RestartLimits, may_retry
from headway.sim.faults import Faults, ReplicaExit, health, refused


@dataclass(slots=True)
class _SimulatedGang:
    attempt: int = 0
    speed: float = 1.0
    """Speed of this attempt, relative to a healthy gang."""
    refusals: int = 0
    losses: Losses = Losses()
    failures: int = 0
    """How often it ended with an error."""
    ended: dict[ReplicaKey, ReplicaFact] | None = None
    """Replicas that ended in this attempt."""
    code: int | None = None
    """The exit code of the last one that failed."""


class Gangs:
    def __init__(self, faults: Faults, seed: int) -> None:
        self.limits = RestartLimits()
        self._faults, self._seed = faults, seed
        self._gangs: dict[JobId, _SimulatedGang] = {}
        self._exits: list[tuple[float, int, JobId, int, ReplicaExit | None]] = []
        """Time, a number that breaks ties, job, attempt, and the replica that ends; None at the end of a grace time."""
        self._number = 0

    def start(self, job: Job, now: float) -> bool:
        """Begins another attempt. Returns whether it comes up; if not, a node refused a replica."""
        gang = self._gangs.setdefault(job.id, _SimulatedGang())
        gang.attempt += 1
        gang.speed = health(self._faults, self._seed, job.id, gang.attempt)
        gang.ended = None
        if refused(self._faults, self._seed, job.id, gang.attempt):
            gang.refusals += 1
            return False
        gang.refusals = 0
        for fault in self._faults.exits:
            if fault.job == job.id and fault.attempt in (0, gang.attempt):
                self._expect(now + fault.after, job.id, gang.attempt, fault)
        return True

    def refused_too_often(self, job: Job) -> str:
        """Why it fails; empty if it may be tried again."""
        count = self._gangs[job.id].refusals
        often = count > self.limits.of(job.restarts).refusals
        return f"a node refused a replica {count} times in a row" if often else ""

    def speed(self, job_id: JobId) -> float:
        gang = self._gangs.get(job_id)
        return 1.0 if gang is None else gang.speed

    @property
    def next(self) -> float:
        """When the next replica ends, or the next grace time."""
        return self._exits[0][0] if self._exits else math.inf

    def due(self, now: float) -> list[JobId]:
        """The jobs with a replica, or a grace time, that has ended by now."""
        jobs: dict[JobId, None] = {}
        while self._exits and self._exits[0][0] <= now:
            at, _, job_id, attempt, fault = heapq.heappop(self._exits)
            gang = self._gangs.get(job_id)
            if gang is None or gang.attempt != attempt:
                continue
            jobs[job_id] = None
            if fault is not None:
                gang.ended = gang.ended or {}
                gang.ended[fault.role, fault.index] = _member(fault, at)
                gang.code = fault.code or gang.code
        return list(jobs)

    def verdict(
        self, job: Job, placement: Placement, nodes: Nodes, now: float, *,
        down: AbstractSet[int] = frozenset(), starting: bool = False,
    ) -> GangVerdict:  # fmt: skip
        """What the gang rule says of the job now that the nodes in `down` have failed."""
        gang = self._gangs.setdefault(job.id, _SimulatedGang())
        members = []
        for role, where in zip(job.roles, placement.nodes, strict=True):
            for index, node in enumerate(where):
                member = (gang.ended or {}).get((role.name, index), ReplicaFact(role.name, index, Phase.UP))
                if node in down and not member.is_over:
                    member = ReplicaFact(role.name, index, Phase.LOST, why=f"node {nodes.nodes[node].name} failed")
                members.append(member)
        wanted = {role.name: len(where) for role, where in zip(job.roles, placement.nodes, strict=True)}
        verdict = judge(job, wanted, members, now, starting=starting)
        if math.isfinite(verdict.until):
            self._expect(verdict.until, job.id, gang.attempt, None)
        return verdict

    def lose(self, job: Job, now: float, seconds_of_work: float) -> Losses:
        """Counts a loss of the gang. The work done so far tells whether there was progress since the last loss."""
        gang = self._gangs.setdefault(job.id, _SimulatedGang())
        gang.losses = gang.losses.another(now, int(seconds_of_work), self.limits.of(job.restarts))
        return gang.losses

    def may_retry(self, job: Job) -> bool:
        """Counts an end with an error. Whether the job starts again all the same."""
        gang = self._gangs.setdefault(job.id, _SimulatedGang())
        gang.failures += 1
        return gang.failures <= job.retries and may_retry(job.retry_on, job.retry_not_on, gang.code)

    def forget(self, job_id: JobId) -> None:
        self._gangs.pop(job_id, None)

    def _expect(self, at: float, job_id: JobId, attempt: int, fault: ReplicaExit | None) -> None:
        self._number += 1
        heapq.heappush(self._exits, (at, self._number, job_id, attempt, fault))


def _member(fault: ReplicaExit, at: float) -> ReplicaFact:
    name = f"{fault.role}-{fault.index}"
    phase = phase_of_exit(fault.code, out_of_memory=fault.out_of_memory)
    why = f"{name} ran out of memory" if fault.out_of_memory else exit_sentence(name, fault.code)
    return ReplicaFact(fault.role, fault.index, phase, at, why, fault.out_of_memory)
