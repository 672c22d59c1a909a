"""The runs of this user on this machine: each claims what it plans with, so that no two plan with the same cores.

Example: `headway run a.yaml` claims two cores. A second run is refused, and the sentence names the first. With
`--share` it plans with what the first leaves. A claim is a file that its run holds locked: it ends with the process,
however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from headway.core.errors import UserError
from headway.core.node import Node
from headway.core.quantity import CPU, GPU
from headway.local.devices import Device
from headway.local.machine import cores_of, this_machine
from headway.local.state_folder import home_of_user

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a file raises that is no claim."""


@dataclass(frozen=True, slots=True)
class MachineClaim:
    """What a run on this machine plans with."""

    pid: int
    state: str
    """The folder of the run."""
    capacity: tuple[tuple[str, int], ...]
    cores: tuple[int, ...]
    devices: tuple[str, ...] = ()
    """The ids of its GPUs."""

    def __str__(self) -> str:
        return f"process {self.pid} ({self.state})"


class HeldClaim:
    """The claim of this process. Close it at the end."""

    def __init__(self, file: IO[str] | None, others: Sequence[MachineClaim]) -> None:
        self._file = file
        self.foreign_cores = frozenset(core for other in others for core in other.cores)
        """The cores that other runs plan with."""

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._file.name)  # noqa: PTH108
            self._file.close()


def machine_left(gpus: int = 0, *, share: bool) -> Node:
    """What this run may plan with: the machine or, with `share`, what other runs leave of it; and so many GPUs."""
    return _left(_running() if share else [], gpus)


def devices_left(devices: Sequence[Device], *, share: bool) -> list[Device]:
    """These GPUs or, with `share`, those that no other run plans with."""
    claimed = {device for other in _running() for device in other.devices} if share else set()
    return [device for device in devices if device.id not in claimed]


def _running() -> list[MachineClaim]:
    """The claims of other runs; none where none can be kept."""
    try:
        with _claims() as (_, others):
            return others
    except OSError:
        return []


def running_folders() -> list[Path]:
    """The state folders of the runs of this user that go on."""
    return [Path(other.state) for other in _running()]


def claim_machine(state: Path, nodes: Sequence[Node], devices: Sequence[Device] = (), *, share: bool) -> HeldClaim:
    """Claim these nodes and their GPUs for this process. Without `share` a UserError names any other run.

    Where no claim can be kept (a full disk, no folder of one's own), jobs are trained all the same.
    """
    own = MachineClaim(os.getpid(), str(state), tuple(_total(nodes).items()), (), tuple(one.id for one in devices))
    try:
        with _claims() as (folder, others):
            return _claim(folder, others, own, nodes, share=share)
    except OSError:
        return HeldClaim(None, ())


def _claim(
    folder: Path, others: list[MachineClaim], own: MachineClaim, nodes: Sequence[Node], *, share: bool
) -> HeldClaim:
    if others and not share:
        raise UserError(
            f"{others[0]} already runs jobs on this machine; add to it with `headway add`, wait until it ends, "
            "or take what it leaves with --share"
        )
    left = dict(_left(others, len(own.devices)).capacity)
    short = any(amount > left.get(kind, 0) for kind, amount in own.capacity)
    if others and (short or any(set(own.devices) & set(other.devices) for other in others)):
        raise UserError(f"--share: {others[0]} has just taken what was left of this machine; try again")
    foreign = frozenset(core for other in others for core in other.cores)
    cores = sorted({core for some in cores_of(nodes, foreign) for core in some})
    file = tempfile.NamedTemporaryFile("w", dir=folder, suffix=".run", delete=False)  # noqa: SIM115  held by the claim
    fcntl.flock(file, fcntl.LOCK_EX)
    json.dump({**asdict(own), "capacity": dict(own.capacity), "cores": cores}, file)
    file.flush()
    return HeldClaim(file, others)


def _total(nodes: Sequence[Node]) -> dict[str, int]:
    total: dict[str, int] = {}
    for node in nodes:
        for kind, amount in node.capacity:
            total[kind] = total.get(kind, 0) + amount
    return total


def _left(others: Sequence[MachineClaim], gpus: int = 0) -> Node:
    """The GPUs are counted already: they are claimed one by one."""
    machine = this_machine(gpus)
    left = dict(machine.capacity)
    for other in others:
        for kind, amount in other.capacity:
            if kind in left and kind != GPU:
                left[kind] = max(0, left[kind] - amount)
    if left[CPU] <= 0:
        raise UserError(f"--share: {', '.join(map(str, others))} leaves no cpu of this machine; wait until it ends")
    return Node(name=machine.name, capacity=tuple(sorted(left.items())))


# ── the folder of claims ────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _claims() -> Iterator[tuple[Path, list[MachineClaim]]]:
    """The folder of claims and those of other runs. One process at a time looks at them and makes its own."""
    folder = _folder_of_user()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, _others(folder)


def _folder_of_user() -> Path:
    """A folder of this user and this machine, which outlives a session: logind removes its own at logout.

    Raises OSError if there can be none. That of another user's home, as `sudo` has it, is not made.
    """
    folder = home_of_user() / "runs" / (platform.node() or "here")
    there = next(above for above in (folder, *folder.parents) if above.exists())
    if there.stat().st_uid != os.getuid():
        raise PermissionError(f"{there} is not a folder of this user")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _others(folder: Path) -> list[MachineClaim]:
    """The claims of runs that live. A claim whose lock is free is of a run that has ended: it is removed."""
    found = []
    for path in sorted(folder.glob("*.run")):
        with contextlib.suppress(*UNREADABLE), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                told = json.load(file)
                capacity = tuple((str(kind), int(amount)) for kind, amount in told["capacity"].items())
                cores = tuple(int(core) for core in told["cores"])
                devices = tuple(map(str, told.get("devices", ())))
                found.append(MachineClaim(int(told["pid"]), str(told["state"]), capacity, cores, devices))
            else:
                path.unlink()
    return found
