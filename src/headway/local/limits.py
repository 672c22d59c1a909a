"""Limits of cpu and memory for a replica and all processes that it starts.

They are set by control group where this user may make one, and so is the number of processes. Otherwise cpu alone is
limited, by affinity to cores.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from headway.local.affinity import CoreLoads, bind

PERIOD_MICROSECONDS = 20_000
"""Short, so that a replica with half a core is slowed evenly. Long bursts would disturb its reports."""
MOST_PROCESSES = max(4096, 64 * (os.cpu_count() or 1))
"""Processes and threads of one replica: more than any training needs, and less than stops the machine."""
_ROOT = Path("/sys/fs/cgroup")
_MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """What one replica and all its processes may use."""

    cpu: int
    """Thousandths of a core."""
    memory: int = 0
    """MiB; 0 means no limit."""
    processes: int = 0
    """Processes and threads; 0 means no limit."""
    held: int = 0
    """Thousandths of a core that it is promised: its weight beside others; 0 means as much as it may use."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of one replica's control group; none if cpu is limited by affinity."""

    folders: tuple[Path, ...]
    unified: bool
    memory: Path | None = None
    """The folder that measures memory, and limits it where that is asked for; None if none is permitted."""
    pids: Path | None = None
    """The folder that limits the number of processes; None if that is not permitted."""
    cores: tuple[int, ...] = ()
    """The cores that the replica may use; none given means all."""
    name: str = ""
    loads: CoreLoads | None = None
    """Where its cores are counted, if cpu is limited by affinity."""

    @property
    def join(self) -> list[str]:
        """The files into which a process writes its id to join the group."""
        return [str(folder / "cgroup.procs") for folder in self._all]

    @property
    def _all(self) -> tuple[Path, ...]:
        more = [folder for folder in (self.memory, self.pids) if folder is not None]
        return tuple(dict.fromkeys((*self.folders, *more)))

    def limit(self, limits: ReplicaLimits) -> None:
        """Set the limits; they hold from now on."""
        if self.memory is not None and limits.memory > 0:
            _limit_memory(self.memory, limits.memory << 20, unified=self.unified)
        if self.pids is not None and limits.processes > 0:
            with contextlib.suppress(OSError):
                (self.pids / "pids.max").write_text(str(limits.processes))
        if not self.folders or limits.cpu <= 0:
            return
        self._weigh(limits.held or limits.cpu)
        quota = max(1000, limits.cpu * PERIOD_MICROSECONDS // 1000)
        if self.unified:
            (self.folders[0] / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (self.folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self.folders[0] / "cpu.cfs_quota_us").write_text(str(quota))

    def _weigh(self, held: int) -> None:
        """Its part of a node on which all want more than there is. A kernel may have no such file."""
        name, one_core, most = ("cpu.weight", 100, 10_000) if self.unified else ("cpu.shares", 1024, 262_144)
        with contextlib.suppress(OSError):
            if (self.folders[0] / name).exists():
                (self.folders[0] / name).write_text(str(min(max(2, held * one_core // 1000), most)))

    def bind(self, shim: int, limits: ReplicaLimits) -> None:
        """Where cpu is limited by affinity: gives the processes below the shim as many cores as the limit says."""
        cores = self.loads.change(self.name, limits.cpu) if self.loads is not None else ()
        if cores:
            bind(shim, cores)

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
        if self.loads is not None:
            self.loads.give_back(self.name)
        for folder in self._all:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    _kill((folder / "cgroup.procs").read_text())
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if not folder.exists():
                    break
                time.sleep(0.02)


def _kill(pids: str) -> None:
    """Kills these processes. 0 is one that this namespace does not see; to kill 0 would be to kill ourselves."""
    for pid in map(int, pids.split()):
        if pid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class ControlGroups:
    """The control groups of one run, below one folder. An earlier run that was killed may have left some there."""

    def __init__(self, name: str, *, cgroups: bool = True, max_processes: int = MOST_PROCESSES) -> None:
        self._name = f"headway-{name}"
        self._max_processes = max_processes
        self._loads = CoreLoads()
        self._parents = _parents(self._name) if cgroups else ()
        self._unified = len(self._parents) == 1
        self.sweep()

    @property
    def by_cgroup(self) -> bool:
        return bool(self._parents)

    def group(self, replica: str, limits: ReplicaLimits, cores: tuple[int, ...] = ()) -> ControlGroup:
        """The group of one replica on a node with these cores. Without control groups it gets some of the cores."""
        if not self._parents:
            chosen = self._loads.take(replica, limits.cpu, cores) if cores else ()
            return ControlGroup((), self._unified, cores=chosen, name=replica, loads=self._loads)
        folders = tuple(parent / replica for parent in self._parents)
        for folder in folders:
            folder.mkdir(exist_ok=True)
        memory = self._also("memory", _MEMORY_FILES, replica)
        pids = self._also("pids", ("pids.max", "pids.max"), replica)
        group = ControlGroup(folders, self._unified, memory, pids, cores)
        try:
            group.limit(replace(limits, processes=limits.processes or self._max_processes))
        except OSError:
            group.remove()
            raise
        return group

    def _also(self, controller: str, files: tuple[str, str], replica: str) -> Path | None:
        """The folder of a replica in another controller: in cgroup version 2 the same folder, in version 1 its own.

        None if the file that sets the limit is not there (`files`: in version 2, in version 1).
        """
        folder = self._parents[0] / replica if self._unified else _ROOT / controller / self._name / replica
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        return folder if (folder / files[0 if self._unified else 1]).exists() else None

    @property
    def _roots(self) -> tuple[Path, ...]:
        if not self._parents or self._unified:
            return self._parents
        others = (_ROOT / controller / self._name for controller in ("memory", "pids"))
        return (*self._parents, *(folder for folder in others if folder.is_dir()))

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
    for controller in ("+memory", "+pids"):
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(controller)
    return (folder,)
