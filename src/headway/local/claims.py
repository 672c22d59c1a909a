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
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headway.core.errors import UserError
from headway.core.node import Node
from headway.core.quantity import CPU
from headway.local.machine import cores_of, this_machine

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


def machine_left(*, share: bool) -> Node:
    """What this run may plan with: the machine or, with `share`, what other runs leave of it."""
    if not share:
        return this_machine()
    try:
        with _claims() as (_, others):
            return _left(others)
    except OSError:
        return this_machine()


def running_folders() -> list[Path]:
    """The state folders of the runs of this user that go on."""
    try:
        with _claims() as (_, others):
            return [Path(other.state) for other in others]
    except OSError:
        return []


def claim_machine(state: Path, nodes: Sequence[Node], *, share: bool) -> HeldClaim:
    """Claim these nodes for this process. Without `share` a UserError names any other run.

    Where no claim can be kept (a full disk, no folder of one's own), jobs are trained all the same.
    """
    try:
        with _claims() as (folder, others):
            return _claim(folder, others, state, nodes, share=share)
    except OSError:
        return HeldClaim(None, ())


def _claim(folder: Path, others: list[MachineClaim], state: Path, nodes: Sequence[Node], *, share: bool) -> HeldClaim:
    if others and not share:
        raise UserError(
            f"{others[0]} already runs jobs on this machine; wait until it ends, or take what it leaves with --share"
        )
    total, left = _total(nodes), dict(_left(others).capacity)
    if others and any(amount > left.get(kind, 0) for kind, amount in total.items()):
        raise UserError(f"--share: {others[0]} has just taken what was left of this machine; try again")
    foreign = frozenset(core for other in others for core in other.cores)
    cores = sorted({core for own in cores_of(nodes, foreign) for core in own})
    file = tempfile.NamedTemporaryFile("w", dir=folder, suffix=".run", delete=False)  # noqa: SIM115  held by the claim
    fcntl.flock(file, fcntl.LOCK_EX)
    json.dump({"pid": os.getpid(), "state": str(state), "capacity": total, "cores": cores}, file)
    file.flush()
    return HeldClaim(file, others)


def _total(nodes: Sequence[Node]) -> dict[str, int]:
    total: dict[str, int] = {}
    for node in nodes:
        for kind, amount in node.capacity:
            total[kind] = total.get(kind, 0) + amount
    return total


def _left(others: Sequence[MachineClaim]) -> Node:
    machine = this_machine()
    left = dict(machine.capacity)
    for other in others:
        for kind, amount in other.capacity:
            if kind in left:
                left[kind] = max(0, left[kind] - amount)
    if left[CPU] <= 0:
        raise UserError(f"--share: {', '.join(map(str, others))} leaves no cpu of this machine; wait until it ends")
    return Node(name=machine.name, capacity=tuple(sorted(left.items())))


# ── the folder of claims ────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _claims() -> Iterator[tuple[Path, list[MachineClaim]]]:
    """The folder of claims and those of other runs. One process at a time looks at them and makes its own."""
    folder = _runtime_folder()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, _others(folder)


def _runtime_folder() -> Path:
    """A folder of this user alone that does not outlive the machine's session; an OSError if there can be none."""
    user = os.getuid()
    session = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}")
    folder = session / "headway" if session.is_dir() else Path(tempfile.gettempdir()) / f"headway-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
        raise PermissionError(f"{folder} is not a folder of this user")
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
                found.append(MachineClaim(int(told["pid"]), str(told["state"]), capacity, cores))
            else:
                path.unlink()
    return found
