"""One replica as a real process, behind its shim."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headway.core.job import Job, Role
from headway.local.limits import Group, Share

GRACE_SECONDS = 10.0
"""How long a replica may take to end after it was told to; documented in docs/local.md."""


@dataclass(slots=True, eq=False)
class Replica:
    role: int
    index: int
    node: int
    share: Share
    group: Group
    process: subprocess.Popen[bytes]
    port: int
    launched: float
    up: bool = False
    leaving: bool = False
    """It was told to go; how it ends is of no interest."""
    exit_code: int | None = None
    ended_at: float = 0.0
    """On the run's clock, when its end was first seen."""
    over_memory: bool = False
    """It, or something it started, was killed because together they used more memory than its share."""
    measured: tuple[float, float] = field(default=(0.0, 0.0))
    """When its cpu time was last read, and what it was."""

    def tell_to_stop(self) -> None:
        self.leaving = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self.exit_code is None:
            self.exit_code = self.process.poll()
            if self.exit_code is not None:
                self.over_memory = self.group.killed_for_memory()
                self.group.remove()
        return self.exit_code

    def give(self, share: Share) -> None:
        self.share = share
        self.group.limit(share)


@dataclass(frozen=True, slots=True)
class Seat:
    """Everything a replica is started with that does not follow from the job."""

    role: int
    index: int
    node: int
    attempt: int
    share: Share
    cores: tuple[int, ...]
    group: Group
    hosts: Mapping[str, list[str]]
    counts: Mapping[str, int]
    output: Path
    checkpoint: Path
    progress: str


def launch(job: Job, seat: Seat, now: float) -> Replica:
    role = job.roles[seat.role]
    port = free_port()
    seat.output.parent.mkdir(parents=True, exist_ok=True)
    seat.checkpoint.mkdir(parents=True, exist_ok=True)
    spec = {
        "parent": os.getpid(), "command": resolve(role.command), "directory": job.directory or str(Path.cwd()),
        "env": environment(job, role, seat, port), "output": str(seat.output), "join": seat.group.join,
        "cores": list(seat.cores), "grace": GRACE_SECONDS,
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-E", "-s", "-m", "headway.local.shim", json.dumps(spec)],
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    return Replica(seat.role, seat.index, seat.node, seat.share, seat.group, process, port, now)


def environment(job: Job, role: Role, seat: Seat, port: int) -> dict[str, str]:
    """The contract with training scripts; docs/progress.md tells it to their authors."""
    return {
        **os.environ,
        **dict(role.env),
        "HEADWAY_JOB": job.id,
        "HEADWAY_ROLE": role.name,
        "HEADWAY_INDEX": str(seat.index),
        "HEADWAY_ATTEMPT": str(seat.attempt),
        "HEADWAY_PORT": str(port),
        "HEADWAY_HOSTS": json.dumps(seat.hosts),
        "HEADWAY_REPLICAS": json.dumps(seat.counts),
        "HEADWAY_CHECKPOINT": str(seat.checkpoint),
        "HEADWAY_PROGRESS": seat.progress,
    }


def resolve(command: tuple[str, ...]) -> list[str]:
    """`python` means the Python that runs Headway, so that a jobs file works in every environment."""
    first = sys.executable if command[0] in ("python", "python3") else command[0]
    return [first, *command[1:]]


def missing_program(job: Job, role: Role) -> str:
    """What the command names and is not there; empty where all is."""
    first = resolve(role.command)[0]
    if "/" in first:
        found = (Path(job.directory) / first).exists()
    else:
        found = shutil.which(first) is not None
    if not found:
        return first
    if role.command[0] in ("python", "python3") and len(role.command) > 1:
        script = role.command[1]
        if script.endswith(".py") and not (Path(job.directory) / script).is_file():
            return script
    return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
