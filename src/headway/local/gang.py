"""The replicas of one job on this machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headway.core.job import Job
from headway.core.placement import Placement
from headway.core.quantity import CPU, MEMORY
from headway.core.shape import Shape
from headway.listen import Connected
from headway.local.limits import Limits, Share, cores_for
from headway.local.replica import Replica, Seat, launch

UP_SECONDS = 3.0
"""A replica that does not report counts as up when it has lived this long."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What all gangs of a run share."""

    limits: Limits
    cores: list[tuple[int, ...]]
    """By node."""
    kinds: tuple[str, ...]
    folder: Path
    progress: str


@dataclass(slots=True, eq=False)
class Gang:
    job: Job
    shape: Shape
    grounds: Grounds
    attempt: int = 0
    replicas: list[Replica] = field(default_factory=list)
    step: int = -1
    """The last step reported in this attempt."""
    total_steps: int | None = None
    interruptions: int = 0
    """In a row, without a step of progress in between."""
    saved: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    asked: int = 0
    """Number of the last request to save."""
    declined: int = 0
    """How often in a row something was asked of it while it ran, in vain."""
    declined_at: float = 0.0
    broken: Replica | None = None
    """One that ended with an error while the gang started."""

    @property
    def checkpoint(self) -> Path:
        return self.grounds.folder / "checkpoints" / self.job.id

    def output(self, role: str, index: int) -> Path:
        return self.grounds.folder / "output" / self.job.id / f"{role}-{index}.log"

    def begin_attempt(self, attempt: int) -> None:
        self.attempt, self.replicas, self.step = attempt, [], -1

    def launch(
        self, role: int, nodes: tuple[int, ...], share: Share, counts: dict[str, int], now: float
    ) -> list[Replica]:
        """Starts replicas of one role; they are told where the roles are that were started before."""
        name = self.job.roles[role].name
        taken = {replica.index for replica in self.of(role)}
        started = []
        for node in nodes:
            index = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(index)
            group = self.grounds.limits.group(f"{self.job.id}.{name}.{index}.{self.attempt}", share)
            cores = self.grounds.cores[node]
            seat = Seat(
                role=role, index=index, node=node, attempt=self.attempt, share=share,
                cores=cores if self.grounds.limits.by_cgroup else tuple(cores_for(share.cpu, cores)), group=group,
                hosts=self.hosts(), counts=counts, output=self.output(name, index), checkpoint=self.checkpoint,
                progress=self.grounds.progress,
            )  # fmt: skip
            started.append(launch(self.job, seat, now))
        self.replicas += started
        return started

    def of(self, role: int) -> list[Replica]:
        return [replica for replica in self.replicas if replica.role == role and not replica.leaving]

    def hosts(self) -> dict[str, list[str]]:
        return {
            role.name: [f"127.0.0.1:{replica.port}" for replica in self.of(number)]
            for number, role in enumerate(self.job.roles)
            if self.of(number)
        }

    def counts(self) -> dict[str, int]:
        return {role.name: len(self.of(number)) for number, role in enumerate(self.job.roles)}

    def name(self, replica: Replica) -> str:
        return f"{self.job.roles[replica.role].name}-{replica.index}"

    def share(self, placement: Placement, role: int) -> Share:
        """What one replica of this role is given; no memory limit, not even by a resize, where its job names none."""
        given = dict(zip(self.grounds.kinds, placement.vector(self.shape, role).tolist(), strict=True))
        named = dict(self.job.roles[role].request)
        return Share(given.get(CPU, 0), given.get(MEMORY, 0) if MEMORY in named else 0)

    def failed(self) -> Replica | None:
        """One that ended with an error; where there are several, the cause rather than those that missed it."""
        ended = [replica for replica in self.replicas if not replica.leaving and replica.poll()]
        return next((replica for replica in ended if replica.over_memory), ended[0] if ended else None)

    def connected(self, event: Connected) -> None:
        self.total_steps = event.total_steps or self.total_steps
        for number, role in enumerate(self.job.roles):
            for replica in self.of(number) if role.name == event.role else []:
                if replica.index == event.index:
                    replica.up = True

    def up(self, replicas: list[Replica], now: float) -> bool:
        for replica in replicas:
            replica.up = replica.up or now - replica.launched >= UP_SECONDS
        return all(replica.up for replica in replicas)

    def leftover(self, role: int, nodes: tuple[int, ...]) -> list[Replica]:
        """The replicas of a role that a new set of nodes has no place for: the latest on each node first."""
        room = Counter(nodes)
        extra = []
        for replica in self.of(role):
            if room[replica.node] > 0:
                room[replica.node] -= 1
            else:
                extra.append(replica)
        return extra

    def alive(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.poll() is None]

    def leaders_done(self) -> bool:
        """Whether a role that others depend on has ended well: then the work is done, however the others end."""
        leaders = {name for role in self.job.roles for name in role.after}
        for number, role in enumerate(self.job.roles):
            replicas = self.of(number)
            if role.name in leaders and replicas and all(replica.poll() == 0 for replica in replicas):
                return True
        return len(self.job.roles) == 1 and any(replica.poll() == 0 for replica in self.replicas)

    def used_cores(self, now: float) -> float | None:
        """Cores used since last asked, over all replicas; None where nobody counts."""
        total, known = 0.0, False
        for replica in self.alive():
            seconds = replica.group.cpu_seconds()
            if seconds is None:
                continue
            then, before = replica.measured
            replica.measured = (now, seconds)
            if then and now > then:
                total, known = total + (seconds - before) / (now - then), True
        return total if known else None
