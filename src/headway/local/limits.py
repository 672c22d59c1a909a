"""Limits of cpu and memory for a replica and all processes that it starts.

They are set by control group where this user may make one. Otherwise cpu alone is limited, by affinity to cores.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

PERIOD_MICROSECONDS = 20_000
"""Short, so that a replica with half a core is slowed evenly. Long bursts would disturb its reports."""
_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """What one replica and all its processes may use."""

    cpu: int
    """Thousandths of a core."""
    memory: int = 0
    """MiB; 0 means no limit."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of one replica's control group; none if cpu is limited by affinity."""

    folders: tuple[Path, ...]
    unified: bool
    memory: Path | None = None
    """The folder that limits memory; None if no limit is asked for or none is permitted."""

    @property
    def join(self) -> list[str]:
        """The files into which a process writes its id to join the group."""
        return [str(folder / "cgroup.procs") for folder in self._all]

    @property
    def _all(self) -> tuple[Path, ...]:
        return self.folders if self.memory is None or self.memory in self.folders else (*self.folders, self.memory)

    def limit(self, limits: ReplicaLimits) -> None:
        """Set the limits; they hold from now on."""
        if self.memory is not None and limits.memory > 0:
            _limit_memory(self.memory, limits.memory << 20, unified=self.unified)
        if not self.folders or limits.cpu <= 0:
            return
        quota = max(1000, limits.cpu * PERIOD_MICROSECONDS // 1000)
        if self.unified:
            (self.folders[0] / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (self.folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self.folders[0] / "cpu.cfs_quota_us").write_text(str(quota))

    def held_memory(self) -> int:
        """MiB that the kernel cannot reclaim without killing a process; 0 if it is not measured."""
        names = ("anon", "shmem") if self.unified else ("total_rss", "total_shmem")
        found = {} if self.memory is None else _numbers(self.memory / "memory.stat")
        return sum(found.get(name, 0) for name in names) >> 20

    def killed_for_memory(self) -> bool:
        """Whether the kernel killed a process of the group because the group used too much memory."""
        if self.memory is None:
            return False
        events = _numbers(self.memory / ("memory.events" if self.unified else "memory.oom_control"))
        return events.get("oom_kill", 0) > 0

    def cpu_seconds(self) -> float | None:
        """The cpu time that all processes of the group have used; None if it is not measured."""
        try:
            if self.unified:
                first = (self.folders[0] / "cpu.stat").read_text().split("\n", 1)[0]
                return int(first.split()[1]) / 1e6
            if len(self.folders) > 1:
                return int((self.folders[1] / "cpuacct.usage").read_text()) / 1e9
        except (OSError, ValueError, IndexError):
            pass
        return None

    def remove(self) -> None:
        """Kill the processes that are left in the group, and remove it."""
        for folder in self._all:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if not folder.exists():
                    break
                time.sleep(0.02)


class ControlGroups:
    """The control groups of one run, below one folder. An earlier run that was killed may have left some there."""

    def __init__(self, name: str, *, cgroups: bool = True) -> None:
        self._name = f"headway-{name}"
        self._parents = _parents(self._name) if cgroups else ()
        self._unified = len(self._parents) == 1
        self.sweep()

    @property
    def by_cgroup(self) -> bool:
        return bool(self._parents)

    def group(self, replica: str, limits: ReplicaLimits) -> ControlGroup:
        folders = tuple(parent / replica for parent in self._parents)
        for folder in folders:
            folder.mkdir(exist_ok=True)
        group = ControlGroup(folders, self._unified, self._memory(replica) if limits.memory > 0 else None)
        group.limit(limits)
        return group

    def _memory(self, replica: str) -> Path | None:
        """The folder that limits a replica's memory. In cgroup version 1 only replicas with a memory limit have one."""
        if not self._parents:
            return None
        folder = self._parents[0] / replica if self._unified else _ROOT / "memory" / self._name / replica
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        return folder if (folder / ("memory.max" if self._unified else "memory.limit_in_bytes")).exists() else None

    @property
    def _roots(self) -> tuple[Path, ...]:
        memory = _ROOT / "memory" / self._name
        return (*self._parents, memory) if self._parents and not self._unified and memory.is_dir() else self._parents

    def sweep(self) -> None:
        """Kill all processes that an earlier run left in these groups."""
        for parent in self._roots:
            for folder in [path for path in parent.iterdir() if path.is_dir()]:
                ControlGroup((folder,), self._unified).remove()

    def close(self) -> None:
        self.sweep()
        for parent in self._roots:
            with contextlib.suppress(OSError):
                parent.rmdir()


def _limit_memory(folder: Path, limit: int, *, unified: bool) -> None:
    """Limit memory and swap together: a replica that uses too much is killed and does not slow down in swap."""
    if unified:
        texts = {"memory.oom.group": "1", "memory.swap.max": "0", "memory.max": str(limit)}
    else:
        texts = {name: str(limit) for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")}
        if limit > _number(folder / "memory.limit_in_bytes"):
            texts = dict(reversed(texts.items()))  # the kernel refuses a limit with swap that is below the one without
    for name, text in texts.items():
        # a kernel may lack some of these files, and refuses a memory limit below what is in use
        with contextlib.suppress(OSError):
            if (folder / name).exists():
                (folder / name).write_text(text)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _numbers(path: Path) -> dict[str, int]:
    """Read a file that has a name and a number in each line."""
    try:
        return {name: int(number) for name, number in (line.split() for line in path.read_text().splitlines())}
    except (OSError, ValueError):
        return {}


def _parents(name: str) -> tuple[Path, ...]:
    """Our folders in the cpu controller and in the one that counts cpu time; empty if this user may not make them."""
    if (_ROOT / "cgroup.controllers").exists():
        return _unified_parent(name)
    cpu, count = _ROOT / "cpu", _ROOT / "cpuacct"
    folders = [cpu / name] if count.resolve() == cpu.resolve() else [cpu / name, count / name]
    made = []
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)
            made.append(folder)
        (folders[0] / "cpu.cfs_period_us").read_text()
    except OSError:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        return ()
    return (folders[0], folders[-1])


def _unified_parent(name: str) -> tuple[Path, ...]:
    folder = _ROOT / name
    try:
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text("+cpu")
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return ()
    with contextlib.suppress(OSError):
        (folder / "cgroup.subtree_control").write_text("+memory")
    return (folder,)


def cores_for(cpu: int, cores: tuple[int, ...]) -> tuple[int, ...]:
    """The first cores of a node, enough for `cpu` thousandths of a core: a limit in whole cores."""
    return cores[: max(1, math.ceil(cpu / 1000))]
