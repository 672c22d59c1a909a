"""Who has which GPU: the one owner of that fact in a run.

Example: a machine has two GPUs. The replica of job `a` takes GPU 0, that of `b` GPU 1; a third job waits. When GPU 1 is
lost, the node has one GPU less and `b` is lost with it. A GPU on which a process of others computes is not given out.

A device that was given is also locked for all users, in a file that the replica's own processes hold open. The lock
ends with the last of them: after `kill -9` of Headway, no later run gives a device to a second job while the first one
still dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.node import Node
from headway.core.quantity import GPU
from headway.local.devices import NAMED, Device, Look, Reading, visibility
from headway.local.gpu_locks import locked
from headway.local.shim import parent_of

LOOK_SECONDS = 1.0
BLIND = "it sees no GPU, because other jobs have them all: write gpu: 1 into its job if it needs one"
ABOUT_GPUS = JobId("--gpus")
"""What a note about GPUs that no job has is about. No job can have this name."""
MEMORY_LABEL = "gpu-memory"
"""The label of a node that says how many GiB the smallest of its GPUs has."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a run, by node, as they are dealt at its start."""

    by_node: tuple[tuple[Device, ...], ...] = ()
    vendors: frozenset[str] = frozenset()
    """Whose devices the machine has, also those that this run does not give out: they are hidden."""
    look: Look | None = None
    """Asks the drivers how the devices are now."""
    busy: bool = False
    """Give out devices that processes of others use, too."""
    locks: Path | None = None
    """The folder of the locks."""

    @property
    def all(self) -> list[Device]:
        return [device for own in self.by_node for device in own]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one replica was given."""

    devices: tuple[Device, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    locks: tuple[int, ...] = ()
    """Open files that the processes of the replica inherit."""
    replica: str = ""
    pool: DevicePool | None = None
    blind: bool = False
    """It names no resources, and every GPU was given to others when it started."""

    def give_back(self) -> None:
        if self.pool is not None:
            self.pool.give_back(self.replica)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a process is."""

    job: JobId
    grant: Grant


def equipped(nodes: Sequence[Node], free: Sequence[Device], devices: Devices) -> tuple[list[Node], Devices]:
    """The nodes with what their GPUs are, and the devices with the node of each."""
    dealt = deal(nodes, free)
    return [described(node, own) for node, own in zip(nodes, dealt, strict=True)], replace(devices, by_node=dealt)


def deal(nodes: Sequence[Node], devices: Sequence[Device]) -> tuple[tuple[Device, ...], ...]:
    """The devices of each node, in the order of both. A node that names a type of the machine takes that type first."""
    left, dealt = list(devices), dict[int, tuple[Device, ...]]()
    types = {device.type for device in devices} - {""}
    picky = sorted(range(len(nodes)), key=lambda number: nodes[number].accelerator.lower() not in types)
    for number in picky:
        node, wanted = nodes[number], dict(nodes[number].capacity).get(GPU, 0)
        kind = node.accelerator.lower()
        fitting = [device for device in left if kind not in types or device.type == kind]
        if len(fitting) < wanted:
            raise UserError(
                f"field nodes: node {node.name!r} has {wanted} gpu{f' of type {node.accelerator}' if kind else ''}, "
                f"but this machine has {len(fitting)} left; give smaller nodes with --cluster"
            )
        dealt[number] = _alike(fitting, wanted)
        left = [device for device in left if device not in dealt[number]]
    return tuple(dealt[number] for number in range(len(nodes)))


def described(node: Node, devices: Sequence[Device]) -> Node:
    """The node with the type and the memory of its devices, where its user does not name them."""
    types, least = {device.type for device in devices}, min((device.memory for device in devices), default=0)
    labels = dict(node.labels)
    if least:
        labels.setdefault(MEMORY_LABEL, str(round(least / 1024)))
    kind = node.accelerator or (types.pop() if len(types) == 1 else "")
    return replace(node, accelerator=kind, labels=tuple(sorted(labels.items())))


def _alike(devices: Sequence[Device], count: int) -> tuple[Device, ...]:
    """So many of them, of one type where that many are alike."""
    for kind in dict.fromkeys(device.type for device in devices):
        same = [device for device in devices if device.type == kind]
        if len(same) >= count:
            return tuple(same[:count])
    return tuple(devices[:count])


class DevicePool:
    """Gives devices to replicas, takes them back, and knows which cannot be given out and why."""

    def __init__(self, devices: Devices) -> None:
        self._given = devices
        self._all = devices.all
        self._held: dict[str, Grant] = {}
        self._lost: dict[Device, str] = {}
        self._used: dict[Device, str] = {}
        """Devices on which processes compute that did not get them: whose."""
        self._readings: dict[Device, Reading] = {}
        self._own: set[int] = set()
        """Processes of replicas, as last seen on a device: a driver may name one for a moment after its end."""
        self._out: dict[Device, str] = {}
        """Devices that are not given out, and why."""
        self._said: list[str] = []
        self._warned: set[tuple[JobId, str]] = set()
        """What was told and still holds: of the devices, and of jobs that use some without asking."""
        self._due = 0.0
        self.looks = 0
        """How often the drivers were asked."""
        driven = any(device.vendor != NAMED for device in self._all)
        self._watch = _Watch(devices.look) if devices.look is not None and driven else None

    @property
    def is_empty(self) -> bool:
        return not self._all

    def close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        for name in list(self._held):
            self.give_back(name)

    # ── giving ──────────────────────────────────────────────────────────────────────────────────────────

    def take(self, replica: str, node: int, count: int, *, hide: bool) -> Grant:
        """Devices of this node for a replica. One that asks for none sees none or, without `hide`, those nobody has.

        Raises OSError where there are too few for now.
        """
        if not self._given.vendors or (count and not self._all):
            return Grant()
        free = [device for device in self._of(node) if self._out_of(device) == "" and not self._holder(device)]
        if count > len(free):
            raise OSError(errno.EAGAIN, f"{len(free)} of {count} GPUs are there for now")
        devices = _alike(free, count) if count else () if hide else tuple(free)
        locks = self._lock(devices) if count else ()
        env, blind = visibility(devices, self._given.vendors), bool(self._of(node)) and not (count or hide or free)
        grant = Grant(devices, env, locks, replica, self, blind)
        if count:
            self._held[replica] = grant
        return grant

    def give_back(self, replica: str) -> None:
        grant, self._due = self._held.pop(replica, None), 0.0
        for lock in () if grant is None else grant.locks:
            os.close(lock)

    def _of(self, node: int) -> tuple[Device, ...]:
        return self._given.by_node[node] if node < len(self._given.by_node) else ()

    def _holder(self, device: Device) -> str:
        return next((name for name, grant in self._held.items() if device in grant.devices), "")

    def _lock(self, devices: Iterable[Device]) -> tuple[int, ...]:
        taken: list[int] = []
        try:
            for device in devices:
                lock = self._locked(device, fcntl.LOCK_EX)
                taken += [] if lock is None else [lock]
        except BlockingIOError as error:
            for lock in taken:
                os.close(lock)
            raise OSError(errno.EAGAIN, "processes of another run have its GPU") from error
        return tuple(taken)

    def _locked(self, device: Device, how: int) -> int | None:
        """The lock file of a device, open and locked; None where none can be kept. BlockingIOError: others have it."""
        if self._given.locks is None:
            return None
        try:
            return locked(self._given.locks / f"{device.id.replace('/', '_')}.gpu", how)
        except BlockingIOError:
            raise
        except OSError:
            return None

    def _is_locked(self, device: Device) -> bool:
        """Whether processes that are not of this run hold it."""
        try:
            lock = self._locked(device, fcntl.LOCK_SH)
        except BlockingIOError:
            return True
        if lock is not None:
            os.close(lock)
        return False

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────

    def _out_of(self, device: Device) -> str:
        """Why a device that nobody of this run holds cannot be given out; empty where it can."""
        if device in self._lost:
            return self._lost[device]
        if device in self._used and not self._given.busy:
            return f"{self._used[device]} (--busy-gpus gives it out)"
        return "processes of another run have it" if self._is_locked(device) else ""

    def lost(self, devices: Iterable[Device]) -> str:
        """Which of these devices is lost, in a sentence; empty where none is."""
        return next((f"{device} is lost: {self._lost[device]}" for device in devices if device in self._lost), "")

    def capacity(self, node: int) -> int | None:
        """The devices of a node that replicas have or could get, as last told; None where it has no devices."""
        own = self._of(node)
        return sum(device not in self._out for device in own) if own else None

    def reading(self, device: Device) -> Reading:
        return self._readings.get(device, Reading(device))

    def step(self, shims: Mapping[int, Owner], now: float) -> list[tuple[JobId, str]]:
        """Takes in what the drivers have said since, and returns what is to be told. `shims`: those of all replicas."""
        latest = None if self._watch is None else self._watch.taken()
        if latest is not None or self._watch is None:
            self.looks += 1
        if latest is not None:
            self._take_in(latest, shims)
        if not self._all or (latest is None and now < self._due):
            return []
        self._due = now + LOOK_SECONDS
        out = {device: why for device in self._all if (why := self._why_out(device))}
        said = [*(f"{device} {why}" for device, why in out.items()), *filter(None, map(self._shared_use, self._all))]
        back = [f"{device} can be given out again" for device in self._out if device not in out]
        told = [(ABOUT_GPUS, "; ".join([*back, *said]))] if back or said != self._said else []
        warned = {one for device in self._all for one in self._warnings(device, shims)}
        warned |= {(owner.job, BLIND) for owner in shims.values() if owner.grant.blind}
        told += sorted(warned - self._warned)
        self._out, self._said, self._warned = out, said, warned
        return [(about, sentence) for about, sentence in told if sentence]

    def _why_out(self, device: Device) -> str:
        if device in self._lost:
            return f"is lost: {self._lost[device]}"
        why = "" if self._holder(device) else self._out_of(device)
        return f"is left alone: {why}" if why else ""

    def _shared_use(self, device: Device) -> str:
        """Of a device that a replica has and that others use all the same."""
        job = self._holder(device).split(".")[0]
        return f"{device} is given to job {job}, but {self._used[device]}" if job and device in self._used else ""

    def _warnings(self, device: Device, shims: Mapping[int, Owner]) -> Iterator[tuple[JobId, str]]:
        """Jobs that use a device which they were not given."""
        holder = self._holder(device)
        for pid in self.reading(device).pids:
            owner = shims.get(_above(pid, shims))
            if owner is not None and owner.grant.replica != holder:
                yield owner.job, f"it uses {device} and did not ask for it: write gpu: 1 into its job"

    def _take_in(self, readings: Sequence[Reading], shims: Mapping[int, Owner]) -> None:
        found = {reading.device.id: reading for reading in readings}
        broken = {reading.device.number: reading for reading in readings if not reading.device.id}
        seen = {pid for reading in readings for pid in reading.pids}
        self._own = {pid for pid in seen if pid in self._own or _above(pid, shims)}
        self._lost, self._used = {}, {}
        for device in self._all:
            if device.vendor == NAMED:
                continue
            silent = Reading(device, lost="its driver no longer tells of it")
            now = found.get(device.id) or broken.get(device.number.split(":")[0]) or silent
            before, self._readings[device] = self._readings.get(device), now
            # Twice in a row: a driver may fail to answer once, or name for a moment a process that has just ended.
            if now.lost and (before is None or before.lost):
                self._lost[device] = now.lost
            users = now.pids if before is None else now.pids & before.pids
            whose = [who for pid in sorted(users) if (who := self._who(pid, device, shims))]
            if whose:
                self._used[device] = "; ".join(whose[:2])

    def _who(self, pid: int, device: Device, shims: Mapping[int, Owner]) -> str:
        """Whose process it is that computes on a device; empty where it may, or has ended."""
        owner, holder = shims.get(_above(pid, shims)), self._holder(device)
        if owner is not None:
            return "" if owner.grant.replica == holder else f"job {owner.job} uses it and did not ask for it"
        name = _name_of(pid)
        if not name and (pid in self._own or holder):
            return ""
        return f"process {pid}{f' ({name})' if name else ''} uses it"


def _name_of(pid: int) -> str:
    """The name of a process; empty where it is gone, or is not seen from here, as from a container."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _above(pid: int, shims: Mapping[int, object]) -> int:
    """The shim above a process; 0 where there is none."""
    while pid > 1 and pid not in shims:
        pid = parent_of(pid)
    return pid if pid in shims else 0


class _Watch:
    """Asks the drivers in a thread of its own: a driver whose device has failed may take seconds to answer."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._latest: tuple[Reading, ...] | None = look()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            self._latest = self._look()

    def taken(self) -> tuple[Reading, ...] | None:
        """What was said since the last call; None if nothing was."""
        latest, self._latest = self._latest, None
        return latest

    def stop(self) -> None:
        self._end.set()
        self._thread.join(timeout=2.0)
