"""Limits for one replica and all it starts: by cgroup where this user may; else of cpu alone, by affinity to cores."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

PERIOD_MICROSECONDS = 20_000
"""Short, so that a replica with half a core is slowed evenly and not in bursts that disturb its reports."""
_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """What one replica is given."""

    cpu: int
    """Thousandths of a core."""
    memory: int = 0
    """MiB; 0 is as much as there is."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of one replica's control group; none where limits are by affinity."""

    folders: tuple[Path, ...]
    unified: bool
    memory: Path | None = None
    """The folder that limits memory; none where that is not asked for or not permitted."""

    @property
    def join(self) -> list[str]:
        """Files into which a process writes itself to be limited."""
        return [str(folder / "cgroup.procs") for folder in self._all]

    @property
    def _all(self) -> tuple[Path, ...]:
        return self.folders if self.memory is None or self.memory in self.folders else (*self.folders, self.memory)

    def limit(self, limits: ReplicaLimits) -> None:
        """At most so much from now on."""
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
        """MiB that the kernel cannot take back without ending somebody; 0 where nobody counts."""
        names = ("anon", "shmem") if self.unified else ("total_rss", "total_shmem")
        found = {} if self.memory is None else _numbers(self.memory / "memory.stat")
        return sum(found.get(name, 0) for name in names) >> 20

    def killed_for_memory(self) -> bool:
        """Whether the kernel ended something inside because it used more than it may."""
        if self.memory is None:
            return False
        told = _numbers(self.memory / ("memory.events" if self.unified else "memory.oom_control"))
        return told.get("oom_kill", 0) > 0

    def cpu_seconds(self) -> float | None:
        """Cpu time used so far by everything inside."""
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
        """Ends whatever is still inside and takes the group away."""
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
    """Groups for the replicas of one run, below one folder of their own that an earlier, killed run may have left."""

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
        """The folder that limits a replica's memory; in version 1 it is made for those that name some."""
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
        """Whatever an earlier run left inside is ended."""
        for parent in self._roots:
            for folder in [path for path in parent.iterdir() if path.is_dir()]:
                ControlGroup((folder,), self._unified).remove()

    def close(self) -> None:
        self.sweep()
        for parent in self._roots:
            with contextlib.suppress(OSError):
                parent.rmdir()


def _limit_memory(folder: Path, limit: int, *, unified: bool) -> None:
    """Memory with swap, so that whoever uses too much is ended and does not crawl."""
    if unified:
        texts = {"memory.oom.group": "1", "memory.swap.max": "0", "memory.max": str(limit)}
    else:
        texts = {name: str(limit) for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")}
        if limit > _number(folder / "memory.limit_in_bytes"):
            texts = dict(reversed(texts.items()))  # the latter is never below the former
    for name, text in texts.items():
        # kernels may lack all but one, and that one stays as it is if too much is used
        with contextlib.suppress(OSError):
            if (folder / name).exists():
                (folder / name).write_text(text)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _numbers(path: Path) -> dict[str, int]:
    """A file with a name and a number in each line."""
    try:
        return {name: int(number) for name, number in (line.split() for line in path.read_text().splitlines())}
    except (OSError, ValueError):
        return {}


def _parents(name: str) -> tuple[Path, ...]:
    """Our folder in the cpu controller (and in the one that counts cpu time), or nothing where we may not."""
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
