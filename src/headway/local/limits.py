"""Cpu limits for one replica and all it starts: by cgroup where this user may, by affinity to cores where not."""

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
class Group:
    """The folders of one replica's control group; none where limits are by affinity."""

    folders: tuple[Path, ...]
    unified: bool

    @property
    def join(self) -> list[str]:
        """Files into which a process writes itself to be limited."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def limit(self, cpu: int) -> None:
        """At most so many thousandths of a core from now on."""
        if not self.folders or cpu <= 0:
            return
        quota = max(1000, cpu * PERIOD_MICROSECONDS // 1000)
        if self.unified:
            (self.folders[0] / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (self.folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self.folders[0] / "cpu.cfs_quota_us").write_text(str(quota))

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
        for folder in self.folders:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if not folder.exists():
                    break
                time.sleep(0.02)


class Limits:
    """Groups for the replicas of one run, below one folder of their own that an earlier, killed run may have left."""

    def __init__(self, name: str, *, cgroups: bool = True) -> None:
        self._name = f"headway-{name}"
        self._parents = _parents(self._name) if cgroups else ()
        self._unified = len(self._parents) == 1
        self.sweep()

    @property
    def by_cgroup(self) -> bool:
        return bool(self._parents)

    def group(self, replica: str, cpu: int) -> Group:
        folders = tuple(parent / replica for parent in self._parents)
        for folder in folders:
            folder.mkdir(exist_ok=True)
        group = Group(folders, self._unified)
        group.limit(cpu)
        return group

    def sweep(self) -> None:
        """Whatever an earlier run left inside is ended."""
        for parent in self._parents:
            for folder in [path for path in parent.iterdir() if path.is_dir()]:
                Group((folder,), self._unified).remove()

    def close(self) -> None:
        self.sweep()
        for parent in self._parents:
            with contextlib.suppress(OSError):
                parent.rmdir()


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
    return (folder,)


def cores_for(cpu: int, cores: tuple[int, ...]) -> list[int]:
    """The first cores of a node that hold so many thousandths: a limit in whole cores."""
    return list(cores[: max(1, math.ceil(cpu / 1000))])
