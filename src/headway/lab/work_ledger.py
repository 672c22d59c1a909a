"""The work left of each job whose pods run on simulated nodes, and when it will be done. Pure.

The caller gives the speed function: the lab does not know the simulator. A gang below its minimum has speed zero. Jobs
that share a node slow each other down by the share of the node's other accelerators that the others hold.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.core.job import Job, JobId, Role
from headway.core.node import Nodes
from headway.core.placement import Placement
from headway.core.quantity import GPU

SpeedOf = Callable[[Job, Placement, Nodes], float]
DONE = 1e-9


class Member(NamedTuple):
    """A running pod: its role in the job, and the number of its node."""

    role: str
    node: int
    accelerators: int = 0


@dataclass(slots=True)
class SimulatedWork:
    job: Job
    left: float
    """Seconds at the requested size, without neighbours."""
    members: dict[str, Member] = field(default_factory=dict)
    rate: float = 0.0


def parse_gang(text: str, default_role: str) -> tuple[Role, ...]:
    """`ps=1,worker=4/2`: one ps and four workers, of which two are enough. Raises ValueError with a sentence."""
    roles = []
    for word in text.split(",") if text else [f"{default_role}=1"]:
        match = re.fullmatch(r"\s*([a-z0-9-]+)=(\d+)(?:/(\d+))?\s*", word)
        if match is None:
            raise ValueError(f"'{word}' is not of the form role=replicas or role=replicas/least")
        replicas = int(match[2])
        roles.append(Role(name=match[1], replicas=replicas, min=int(match[3] or replicas), max=replicas))
    return tuple(roles)


class WorkLedger:
    """Keeps the work of a job while its pods are away: when they come back it continues, as from a checkpoint."""

    def __init__(self, nodes: Nodes, speed_of: SpeedOf, neighbour_loss: float = 0.0) -> None:
        self._nodes, self._speed_of, self._neighbour_loss = nodes, speed_of, neighbour_loss
        self._works: dict[str, SimulatedWork] = {}
        self._on: dict[int, set[str]] = defaultdict(set)
        self._now = 0.0

    def work(self, key: str) -> SimulatedWork | None:
        return self._works.get(key)

    def join(self, key: str, pod: str, member: Member, *, seconds: float, roles: tuple[Role, ...]) -> None:
        """Records that a pod of this job runs."""
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = SimulatedWork(Job(id=JobId(key), roles=roles, seconds=seconds), seconds)
        if work.left > 0 and work.members.get(pod) != member:
            work.members[pod] = member
            self._on[member.node].add(key)
            self._rate_around({member.node})

    def leave(self, key: str, pod: str) -> None:
        work = self._works.get(key)
        member = work.members.pop(pod, None) if work else None
        if work is not None and member is not None:
            if all(other.node != member.node for other in work.members.values()):
                self._on[member.node].discard(key)
            self._rate_around({member.node}, also=key)

    def advance(self, now: float) -> list[tuple[str, list[str]]]:
        """Moves time to `now`; returns the jobs that are done, with their pods."""
        passed, self._now = max(0.0, now - self._now) if self._now else 0.0, now
        done = []
        for key, work in self._works.items():
            if work.rate > 0 and work.left > 0:
                work.left -= work.rate * passed
                if work.left <= DONE:
                    work.left = 0.0
                    done.append((key, list(work.members)))
        return done

    def next_done(self) -> float | None:
        """Returns the seconds until the next job is done, if nothing changes."""
        times = [work.left / work.rate for work in self._works.values() if work.rate > 0 and work.left > 0]
        return min(times, default=None)

    def _rate_around(self, nodes: Iterable[int], also: str = "") -> None:
        """Computes the rates of all jobs on these nodes, and of the job `also`."""
        keys = {key for node in nodes for key in self._on[node]} | ({also} if also else set())
        for key in keys:
            work = self._works[key]
            work.rate = self._rate(key, work)

    def _rate(self, key: str, work: SimulatedWork) -> float:
        where: Mapping[str, list[int]] = defaultdict(list)
        for member in work.members.values():
            where[member.role].append(member.node)
        placement = Placement(tuple(tuple(sorted(where[role.name])) for role in work.job.roles))
        if any(len(on) < role.min for role, on in zip(work.job.roles, placement.nodes, strict=True)):
            return 0.0
        speed = self._speed_of(work.job, placement, self._nodes)
        if self._neighbour_loss:
            speed *= 1.0 - self._neighbour_loss * max(self._share(key, node) for node in placement.used_nodes())
        return speed

    def _share(self, key: str, node: int) -> float:
        """The share of the node's other accelerators that other jobs hold."""
        if GPU not in self._nodes.kinds:
            return 0.0
        own = self._held(key, node)
        room = int(self._nodes.capacity[self._nodes.kinds.index(GPU), node]) - own
        others = sum(self._held(other, node) for other in self._on[node] if other != key)
        return min(1.0, others / room) if room > 0 else 0.0

    def _held(self, key: str, node: int) -> int:
        return sum(member.accelerators for member in self._works[key].members.values() if member.node == node)
