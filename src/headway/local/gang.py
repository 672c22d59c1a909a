"""The replicas of one job on this machine."""

from __future__ import annotations

import errno
import itertools
import math
import os
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.core.gang import (
    GangVerdict,
    Phase,
    ReplicaFact,
    ReplicaKey,
    SaveRound,
    SaveTurn,
    StepsSeen,
    exit_sentence,
    judge,
    phase_of_exit,
)
from headway.core.job import Job
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.quantity import CPU, GPU, MEMORY
from headway.core.restarts import Losses
from headway.core.snapshot import GpuUse
from headway.core.text import clean
from headway.local.device_pool import DevicePool
from headway.local.limits import ControlGroups, ReplicaLimits
from headway.local.over import last_lines
from headway.local.ports import FreePorts
from headway.local.replica import LaunchSpec, LocalReplica, launch
from headway.progress_server import Connected, Saved, SaveFailed
from headway.rendezvous import Rendezvous

USE_WINDOWS = 10
"""A job counts as using what it used in the highest of so many measurements, a second or more each."""
UP_SECONDS = 3.0
"""A replica that does not connect counts as up after this time."""


LEAST_MEMORY, MEMORY_MARGIN, MEMORY_SETTLE_SECONDS, WORTHWHILE = 128, 1.25, 60.0, 0.1
"""A replica that names no memory holds so many MiB at least, and this factor of the most that it was seen to use; less
than at first once it has run so long; a change of less than this share is none."""
LOOK_AGAIN_SECONDS = 5.0
"""So long at most a replica that failed waits for the drivers to say whether one of its GPUs is lost."""
HOST = "127.0.0.1"
ONE_DISK = "here"
"""All checkpoints of a run are in its folder."""
LONGEST_LINE = 300
"""Characters of the last line of its output with which the end of a replica is told."""
RULE_LINES = 20
"""So many of the last lines of an output are looked at for whether a job is retried."""
FOR_NOW = frozenset({
    errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EINTR,
    errno.EADDRINUSE,
})  # fmt: skip
"""Errors of the machine that pass: too few descriptors, processes, memory, ports, room on the disk."""


class LaunchError(Exception):
    """A replica could not be launched; those launched before it are in the gang."""

    def __init__(self, replica: str, error: OSError) -> None:
        where = f"{os.fspath(error.filename)}: " if error.filename else ""
        super().__init__(f"{replica} cannot be launched: {where}{error.strerror or error}")
        self.for_now = error.errno in FOR_NOW


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all gangs of a run share."""

    control_groups: ControlGroups
    cores: list[tuple[int, ...]]
    """The cores of each node, by the number of the node."""
    kinds: tuple[str, ...]
    """The kinds of resources, in the order of a placement's vectors."""
    folder: Path
    progress: str
    """The address of the progress server."""
    devices: DevicePool
    ports: FreePorts = field(default_factory=FreePorts)


@dataclass(slots=True, eq=False)
class Gang:
    job: Job
    shape: Shape
    context: RunContext
    attempt: int = 0
    replicas: list[LocalReplica] = field(default_factory=list)
    step: int = -1
    """The last step reported in this attempt."""
    furthest: int = -1
    """The furthest step reported in any attempt."""
    total_steps: int | None = None
    losses: Losses = Losses()
    failures: int = 0
    """How often it ended with an error."""
    refusals: int = 0
    """The number of refused starts in a row."""
    start_at: float = -math.inf
    """After a refused start: the earliest time of the next one."""
    saves: SaveRound = SaveRound()
    savers: set[ReplicaKey] = field(default_factory=set)
    """The replicas that said in this attempt that they can save."""
    asked_at: float = -math.inf
    """When it was last asked to save."""
    saved_at: float = -math.inf
    save_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    """How long its last saves took."""
    seen: StepsSeen = StepsSeen()
    declined: int = 0
    """The number of changes in a row that the job refused while it ran."""
    declined_at: float = 0.0
    ports: dict[ReplicaKey, int] = field(default_factory=dict)
    """The port of each replica of this attempt, also of those not started yet; of no role: that of the rendezvous."""
    use: deque[float] = field(default_factory=lambda: deque(maxlen=USE_WINDOWS))
    """Cores that it used, in its last measurements."""
    most_memory: dict[int, int] = field(default_factory=dict)
    """By role whose user names nothing: the most MiB that one replica was seen to use in this attempt."""
    broken: GangVerdict | None = None
    """The verdict on a gang that did not come up because a replica ended."""

    @property
    def checkpoint(self) -> Path:
        return self.context.folder / "checkpoints" / self.job.id

    def output(self, role: str, index: int) -> Path:
        return self.context.folder / "output" / self.job.id / f"{role}-{index}.log"

    def begin_attempt(self, attempt: int) -> None:
        self.attempt, self.replicas, self.step, self.savers = attempt, [], -1, set()
        self.saves, self.seen = self.saves.next(), self.seen.stopped()
        self.use.clear()
        self.most_memory.clear()
        self.release_ports()

    def release_ports(self) -> None:
        self.context.ports.give_back(self.ports.values())
        self.ports = {}

    def launch(
        self, role: int, nodes: tuple[int, ...], limits: ReplicaLimits, counts: dict[str, int], now: float
    ) -> list[LocalReplica]:
        """Start replicas of one role. They are told the addresses of the replicas that were started before.

        Raises LaunchError.
        """
        name = self.job.roles[role].name
        taken = {replica.index for replica in self.of(role)}
        started = []
        for node in nodes:
            index = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(index)
            try:
                started.append(self._launch_one(role, index, node, limits, counts, now))
            except OSError as error:
                self.replicas += started
                raise LaunchError(f"{name}-{index}", error) from error
        self.replicas += started
        return started

    def _launch_one(
        self, role: int, index: int, node: int, limits: ReplicaLimits, counts: dict[str, int], now: float
    ) -> LocalReplica:  # fmt: skip
        name = self.job.roles[role].name
        known_as = f"{self.job.id}.{name}.{index}.{self.attempt}"
        where = self.rendezvous(counts)
        asked, pool = self.job.roles[role], self.context.devices
        grant = pool.take(known_as, node, asked.amount(GPU), hide=not asked.unstated)
        try:
            group = self.context.control_groups.group(known_as, limits, self.context.cores[node])
        except OSError:
            grant.give_back()
            raise
        spec = LaunchSpec(
            role=role, index=index, node=node, attempt=self.attempt, limits=limits,
            cores=group.cores, group=group, hosts=self.hosts(), counts=counts, output=self.output(name, index),
            checkpoint=self.checkpoint, progress=self.context.progress, port=self._port(name, index),
            rendezvous=where, grant=grant,
        )  # fmt: skip
        try:
            return launch(self.job, spec, now)
        except OSError:
            group.remove()
            grant.give_back()
            raise

    def of(self, role: int) -> list[LocalReplica]:
        return [replica for replica in self.replicas if replica.role == role and not replica.leaving]

    def hosts(self) -> dict[str, list[str]]:
        return {
            role.name: [f"{HOST}:{replica.port}" for replica in self.of(number)]
            for number, role in enumerate(self.job.roles)
            if self.of(number)
        }

    def rendezvous(self, counts: dict[str, int]) -> Rendezvous:
        """Where all replicas are once there are so many of each role: those that run, and those still to start."""
        addresses: dict[str, dict[int, str]] = {}
        for number, role in enumerate(self.job.roles):
            indices = {replica.index for replica in self.of(number)}
            free = (index for index in itertools.count() if index not in indices)
            indices |= set(itertools.islice(free, max(0, counts[role.name] - len(indices))))
            addresses[role.name] = {index: f"{HOST}:{self._port(role.name, index)}" for index in sorted(indices)}
        return Rendezvous.of(self.job, self.attempt, addresses, self._port("", 0))

    def _port(self, role: str, index: int) -> int:
        if (role, index) not in self.ports:
            self.ports[role, index] = self.context.ports.take()
        return self.ports[role, index]

    def counts(self) -> dict[str, int]:
        return {role.name: len(self.of(number)) for number, role in enumerate(self.job.roles)}

    def name(self, replica: LocalReplica) -> str:
        return f"{self.job.roles[replica.role].name}-{replica.index}"

    def limits_of(self, placement: Placement, role: int) -> ReplicaLimits:
        """The limits of one replica of this role: what it holds, and what it may use where the node has it spare.

        That is what the job's user names as its limit, else its request, also where it holds less because it uses less.
        Where its user names nothing, it is the node. Without a memory request there is no limit of memory.
        """
        given = dict(zip(self.context.kinds, placement.vector(self.shape, role).tolist(), strict=True))
        named, held = dict(self.job.roles[role].request), given.get(CPU, 0)
        limit = dict(self.job.roles[role].limit) if self.context.control_groups.by_cgroup else {}
        cpu = max(held, named.get(CPU, 0), limit.get(CPU, 0))
        if self.job.roles[role].unstated:
            cpu = max(held, 1000 * max((len(cores) for cores in self.context.cores), default=1))
        memory = max(given.get(MEMORY, 0), limit.get(MEMORY, 0)) if MEMORY in named else 0
        return ReplicaLimits(cpu, memory, held=held)

    def verdict(self, now: float, grace: float, *, starting: bool = False) -> GangVerdict:
        """The verdict of the gang rule on its processes."""
        members = [self._member(replica, now) for replica in self.replicas if not replica.leaving]
        return judge(self.job, self.counts(), members, now, starting=starting, grace=grace)

    def _member(self, replica: LocalReplica, now: float) -> ReplicaFact:
        role, code = self.job.roles[replica.role].name, replica.poll()
        lost = "" if code == 0 else self.context.devices.lost(replica.grant.devices)
        if code is None and not lost:
            return ReplicaFact(role, replica.index, Phase.UP if replica.up else Phase.PENDING)
        if not replica.ended_at:
            replica.ended_at, replica.ended_look = now, self.context.devices.looks
        if lost:
            return ReplicaFact(role, replica.index, Phase.LOST, replica.ended_at, f"{self.name(replica)}: {lost}")
        if code and replica.grant.devices and self._asks_drivers(replica, now):
            return ReplicaFact(role, replica.index, Phase.UP)
        if replica.over_memory:
            why = f"{self.name(replica)} was killed: it used more than its {replica.limits.memory} MiB"
            return ReplicaFact(role, replica.index, Phase.FAILED, replica.ended_at, why, is_cause=True)
        assert code is not None
        output = self.output(role, replica.index)
        last = "".join(f": {clean(line, LONGEST_LINE)}" for line in last_lines(output, 1)) if code else ""
        why = f"{exit_sentence(self.name(replica), code)}{last}; its output is in {output}"
        return ReplicaFact(role, replica.index, phase_of_exit(code), replica.ended_at, why)

    def exit_code(self) -> int | None:
        """Of the replica that failed, if one did; None where none has ended by itself."""
        ended = [replica.exit_code for replica in self.replicas if replica.ended_at]
        return max((code for code in ended if code is not None), key=bool, default=None)

    def last_output(self) -> str:
        """The last lines of its replicas that failed."""
        ended = [(self.job.roles[one.role].name, one.index) for one in self.replicas if one.ended_at and one.exit_code]
        return "\n".join(line for one in ended for line in last_lines(self.output(*one), RULE_LINES))

    def _asks_drivers(self, replica: LocalReplica, now: float) -> bool:
        """Whether it may still turn out that the replica failed because a GPU is lost: nobody has looked since."""
        looks = self.context.devices.looks
        return looks < replica.ended_look + 3 and now < replica.ended_at + LOOK_AGAIN_SECONDS

    def accept_step(self, step: int) -> bool:
        """Take over a reported step. False, and ignored, if it goes backwards within the attempt."""
        if step < self.step:
            return False
        self.step, self.furthest = step, max(step, self.furthest)
        return True

    def asked(self, replicas: frozenset[ReplicaKey], now: float) -> None:
        """These replicas are asked to save."""
        self.saves, self.asked_at = replace(self.saves.next(), asked=replicas), now

    def answered(self, event: Saved | SaveFailed, now: float) -> None:
        why = event.why if isinstance(event, SaveFailed) else None
        before, self.saves = self.saves, self.saves.answered((event.role, event.index), event.request, why)
        if self.saves.is_complete and not before.is_complete:
            told = event.seconds if isinstance(event, Saved) else None
            self.saved_at = now
            self.save_seconds.append(now - self.asked_at if told is None else told)

    def is_saving(self, now: float, patience: float) -> bool:
        """Whether its disk is busy with its checkpoint; who has not answered for too long is not waited for."""
        return self.saves.is_open and now - self.asked_at < patience and bool(self.alive())

    @property
    def began(self) -> float:
        """When the first replica of this attempt was launched."""
        return min(replica.launched for replica in self.replicas)

    def save_turn(self) -> SaveTurn:
        since = max(self.asked_at, self.saved_at, self.began)
        return SaveTurn(self.job.id, ONE_DISK, self.job.save_every, since, self.save_seconds)

    def present(self) -> set[ReplicaKey]:
        return {(self.job.roles[r.role].name, r.index) for r in self.replicas if not r.leaving and r.poll() is None}

    def connected(self, event: Connected) -> None:
        self.total_steps = event.total_steps or self.total_steps
        self.savers |= {(event.role, event.index)} if event.can_save else set()
        for number, role in enumerate(self.job.roles):
            for replica in self.of(number) if role.name == event.role else []:
                if replica.index == event.index:
                    replica.up = replica.connected = True

    def up(self, replicas: list[LocalReplica], now: float) -> bool:
        for replica in replicas:
            replica.up = replica.up or replica.poll() == 0 or now - replica.launched >= UP_SECONDS
        return all(replica.up for replica in replicas)

    def leftover(self, role: int, nodes: tuple[int, ...]) -> list[LocalReplica]:
        """The replicas of a role that a new set of nodes has no room for: the last started on each node."""
        room = Counter(nodes)
        extra = []
        for replica in self.of(role):
            if room[replica.node] > 0:
                room[replica.node] -= 1
            else:
                extra.append(replica)
        return extra

    def alive(self) -> list[LocalReplica]:
        return [replica for replica in self.replicas if replica.poll() is None]

    def used_gpus(self) -> GpuUse | None:
        """Which GPUs it has, and how much of them is used; None where it has none. Rounded, for the log's sake."""
        readings = [self.context.devices.reading(one) for replica in self.alive() for one in replica.grant.devices]
        if not readings:
            return None
        busy = [reading.use for reading in readings if reading.use is not None]
        memory = [reading.memory for reading in readings if reading.memory is not None]
        return GpuUse(
            tuple(reading.device.number for reading in readings),
            round(round(20 * sum(busy)) / 20, 2) if busy else None,
            round(sum(memory) / 128) * 128 if memory else None,
        )

    def follow_memory(self, placement: Placement, free: IntArray, now: float) -> Placement:
        """The placement with the memory that replicas were seen to need, where their user names nothing.

        Never less than the most so far and a margin; more as far as their nodes have it.
        """
        for replica in self.alive():
            if self.job.roles[replica.role].unstated and (used := replica.group.held_memory()):
                self.most_memory[replica.role] = max(used, self.most_memory.get(replica.role, 0))
        if MEMORY not in self.context.kinds:
            return placement
        kind = self.context.kinds.index(MEMORY)
        for role, most in self.most_memory.items():
            vector = placement.vector(self.shape, role).tolist()
            nodes, held = placement.nodes[role], vector[kind]
            wanted = max(LEAST_MEMORY, math.ceil(most * MEMORY_MARGIN))
            if wanted < held and now < self.began + MEMORY_SETTLE_SECONDS:
                continue
            room = min((int(free[kind, node]) // nodes.count(node) for node in nodes), default=0)
            wanted = min(wanted, held + max(0, room))
            if abs(wanted - held) >= WORTHWHILE * held > 0:
                vector[kind] = wanted
                placement = placement.with_request(role, tuple(vector))
        return placement

    def used_cores(self, now: float) -> float | None:
        """The cores used since the last call, over all replicas; None if they cannot be measured."""
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
