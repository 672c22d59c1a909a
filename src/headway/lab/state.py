"""The state of a running lab, in one file that is written before anything is created.

So a crash at any moment leaves a record of all that may exist, and `down` can remove it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from headway.lab import paths
from headway.lab.errors import LabError
from headway.lab.node_shapes import NodeGroup
from headway.lab.process import Process, is_alive
from headway.lab.programs import PROGRAMS, RELEASE, at_release, find

LOOPBACK = "127.0.0.1"


class Part(msgspec.Struct):
    """One process of the lab, with everything that is needed to start it again."""

    name: str
    argv: list[str]
    version: str
    port: int = 0
    environment: dict[str, str] = {}
    """In addition to the environment of every part."""
    process: Process | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and is_alive(self.process)


class Network(msgspec.Struct, frozen=True):
    """A lab with real nodes has 10.B.0.0/16 to itself: a /24 per node, the last /24 for services.

    The API server listens at the first service address, port 443, where pods expect it, so no proxy is needed.
    """

    block: int

    @property
    def services(self) -> str:
        return f"10.{self.block}.255.0/24"

    @property
    def api_address(self) -> str:
        return f"10.{self.block}.255.1"

    def gateway(self, node: int) -> str:
        """The host's address on a node's bridge; also the node's own address."""
        return f"10.{self.block}.{node}.1"

    def subnet(self, node: int) -> str:
        return f"10.{self.block}.{node}.0/24"

    def bridge(self, node: int) -> str:
        return f"hwlab{self.block}-{node}"


class LabState(msgspec.Struct, kw_only=True):
    name: str
    root: str
    """The state folder in which the lab was created. The environment variable that names it may change later."""
    created: float
    owner: Process | None = None
    """The test run to which the lab belongs. When that is gone, the next `up` ends the lab."""
    address: str = LOOPBACK
    port: int = 0
    reserved_ports: list[int] = []
    kubernetes: str = RELEASE
    bench: bool = False
    gangs: bool = False
    scheduler: dict[str, Any] = {}
    """Fields of the native scheduler's configuration."""
    audit: bool = False
    metrics: bool = False
    kubelets: int = 0
    kubelet_cpus: float | None = None
    cores: list[list[int]] = []
    """The cores of each real node; none: all nodes use all cores of the machine."""
    proxy: bool = False
    simulated: list[NodeGroup] = []
    racks: int = 1
    pods: int = 0
    operators: list[str] = []
    life: list[str] = []
    """The command that ends pods on simulated nodes by their work. The caller gives it: it needs the simulator."""
    network: Network | None = None
    ready: bool = False
    parts: list[Part] = []

    @property
    def folder(self) -> Path:
        return Path(self.root) / self.name

    @property
    def identity(self) -> str:
        """Unique also for labs of the same name in different state folders: for names in /run and of cgroups."""
        return f"{self.name}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:6]}"

    @property
    def mark(self) -> str:
        return str(self.folder)

    @property
    def run_folder(self) -> Path:
        return paths.RUN_ROOT / self.identity

    @property
    def url(self) -> str:
        return f"https://{self.address}" if self.port == 443 else f"https://{self.address}:{self.port}"

    @property
    def lease_seconds(self) -> int:
        """How long a simulated node may be silent. KWOK renews after a quarter: 20 times a second in all at most."""
        return 120 if self.kubelets else max(200, sum(group.count for group in self.simulated) // 5)

    def program(self, name: str) -> Path:
        """The path of a program in the lab's release of Kubernetes."""
        return find(at_release(name, self.kubernetes))

    def flagged_part(self, name: str, flags: Mapping[str, object], port: int) -> Part:
        """The part that runs a program of this name with these flags."""
        argv = [str(self.program(name)), *(f"--{flag}={value}" for flag, value in flags.items())]
        return Part(name=name, argv=argv, version=PROGRAMS[at_release(name, self.kubernetes)].version, port=port)

    def part(self, name: str) -> Part:
        for part in self.parts:
            if part.name == name:
                return part
        known = ", ".join(part.name for part in self.parts)
        raise LabError(f"lab '{self.name}' has no part '{name}'; it has {known}")

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = self.folder / f"lab.json.{os.getpid()}"
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        partial.rename(self.folder / "lab.json")


def check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?", name):
        raise LabError(f"'{name}' cannot name a lab: use up to 24 lower-case letters, digits and dashes")


def load(name: str) -> LabState | None:
    """Returns the state of a lab that is up or was left behind, or None."""
    check_name(name)
    return read(paths.labs() / name / "lab.json")


def read(path: Path) -> LabState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LabState)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LabError(f"{path} cannot be read ({error}): remove {path.parent} after ending its processes") from error


def load_all() -> list[LabState]:
    root = paths.labs()
    names = sorted(path.parent.name for path in root.glob("*/lab.json")) if root.exists() else []
    return [state for name in names if (state := load(name)) is not None]


def check_disk(folder: Path, needed_bytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise LabError(f"a lab needs {needed_bytes / 1e6:.0f} MB of disk and {folder} has {free / 1e6:.0f} MB left")
