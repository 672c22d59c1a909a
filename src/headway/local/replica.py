"""One replica as a real process, behind its shim."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from headway.core.errors import UserError
from headway.core.job import Job, Role
from headway.core.quantity import GPU
from headway.local.device_pool import Grant
from headway.local.limits import ControlGroup, ReplicaLimits
from headway.rendezvous import Rendezvous, variables

TERMINATION_GRACE_SECONDS = 10.0
"""How long a replica may take to end after SIGTERM, before it is killed; documented in docs/local.md."""
SHIM = Path(__file__).with_name("shim.py")
"""Run as a file: it is the shim of this Headway, wherever the environment looks for packages."""

_REFERENCE = re.compile(r"\$(\$?)\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


@dataclass(slots=True, eq=False)
class LocalReplica:
    role: int
    index: int
    node: int
    limits: ReplicaLimits
    group: ControlGroup
    process: subprocess.Popen[bytes]
    port: int
    launched: float
    grant: Grant
    up: bool = False
    connected: bool = False
    """Its script has said in this attempt that it reports."""
    leaving: bool = False
    """It was told to stop; its exit code does not matter."""
    exit_code: int | None = None
    ended_at: float = 0.0
    """When its end was first seen, on the run's clock."""
    ended_look: int = 0
    """How often the drivers of the GPUs had been asked then."""
    over_memory: bool = False
    """The kernel killed it, or a process that it started, because together they used too much memory."""
    measured: tuple[float, float] = field(default=(0.0, 0.0))
    """The time of the last cpu measurement, and the cpu seconds then."""

    def tell_to_stop(self) -> None:
        self.leaving = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self.exit_code is None:
            code = self.process.poll()
            if code is not None:
                self.exit_code = 128 - code if code < 0 else code  # below 0: the shim itself was killed
                self.over_memory = self.group.killed_for_memory()
                self.group.remove()
                self.grant.give_back()
        return self.exit_code

    def set_limits(self, limits: ReplicaLimits) -> None:
        self.limits = limits
        self.group.limit(limits)
        self.group.bind(self.process.pid, limits)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a replica is started with, besides its job."""

    role: int
    index: int
    node: int
    attempt: int
    limits: ReplicaLimits
    cores: tuple[int, ...]
    group: ControlGroup
    hosts: Mapping[str, list[str]]
    counts: Mapping[str, int]
    output: Path
    checkpoint: Path
    progress: str
    port: int
    rendezvous: Rendezvous
    grant: Grant


def launch(job: Job, spec: LaunchSpec, now: float) -> LocalReplica:
    """Starts the shim of a replica. An OSError tells why that is not possible, for now or for ever."""
    role = job.roles[spec.role]
    directory = job.directory or str(Path.cwd())
    os.stat(directory)  # noqa: PTH116  a folder that is gone is told here, by its name
    spec.output.parent.mkdir(parents=True, exist_ok=True)
    spec.checkpoint.mkdir(parents=True, exist_ok=True)
    given = environment(job, role, spec)
    for_shim = {
        "parent": os.getpid(), "command": expanded(resolve(role.command), given), "directory": directory,
        "env": given, "join": spec.group.join,
        "cores": list(spec.cores), "grace": TERMINATION_GRACE_SECONDS,
    }  # fmt: skip
    with _as_file(json.dumps(for_shim)) as stdin, spec.output.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", str(SHIM)],
            stdin=stdin, stdout=output, stderr=output, start_new_session=True, pass_fds=spec.grant.locks,
        )  # fmt: skip
    return LocalReplica(spec.role, spec.index, spec.node, spec.limits, spec.group, process, spec.port, now, spec.grant)


def _as_file(text: str) -> IO[bytes]:
    """A file in memory that no other user can read. A command line is seen by all, and has 128 KiB at most."""
    file = os.fdopen(os.memfd_create("headway"), "w+b")
    file.write(text.encode())
    file.seek(0)
    return file


def environment(job: Job, role: Role, spec: LaunchSpec) -> dict[str, str]:
    """The variables that a training script may rely on; docs/progress.md and docs/frameworks.md list them."""
    own = dict(role.env)
    return {
        **os.environ,
        **variables(spec.rendezvous, role.name, spec.index, gpus=role.amount(GPU), own=own),
        **spec.grant.env,
        **own,
        "HEADWAY_JOB": job.id,
        "HEADWAY_ROLE": role.name,
        "HEADWAY_INDEX": str(spec.index),
        "HEADWAY_ATTEMPT": str(spec.attempt),
        "HEADWAY_PORT": str(spec.port),
        "HEADWAY_HOSTS": json.dumps(spec.hosts),
        "HEADWAY_REPLICAS": json.dumps(spec.counts),
        "HEADWAY_CHECKPOINT": str(spec.checkpoint),
        "HEADWAY_PROGRESS": spec.progress,
    }


def resolve(command: tuple[str, ...]) -> list[str]:
    """Replace `python` by the Python that runs Headway, so that a jobs file works in every environment."""
    first = sys.executable if command[0] in ("python", "python3") else command[0]
    return [first, *command[1:]]


def expanded(command: list[str], variables: Mapping[str, str]) -> list[str]:
    """Replaces `$(NAME)` by the variable, as Kubernetes does; an unknown one stays as it is, and so does `$$(NAME)`."""

    def of(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        return f"$({name})" if escaped else variables.get(name, found[0])

    return [_REFERENCE.sub(of, word) for word in command]


def missing_program(job: Job, role: Role) -> str:
    """The program or script of the command that does not exist, and where it was looked for; empty if all exist."""
    first = resolve(role.command)[0]
    found = _is_there(Path(job.directory) / first) if "/" in first else shutil.which(first) is not None
    if not found:
        return f"{first} does not exist {f'in {job.directory}' if '/' in first else 'on the PATH'}"
    if role.command[0] in ("python", "python3") and len(role.command) > 1:
        script = role.command[1]
        if script.endswith(".py") and not _is_there(Path(job.directory) / script):
            return f"{script} does not exist in {job.directory}"
    return ""


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that this user may not enter, or of a name that no file can have
        return False


def check_programs(where: str, jobs: Iterable[Job]) -> None:
    """Refuse a command that is empty or whose program does not exist."""
    for job in jobs:
        for role in job.roles:
            named = f"{where}: job {job.id!r}, role {role.name!r}: field command"
            if not role.command:
                raise UserError(f"{named}: is empty; give the program to run")
            missing = missing_program(job, role)
            if missing:
                raise UserError(f"{named}: {missing}")
