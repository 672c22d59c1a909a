"""One cgroup subtree per lab, in every hierarchy (cgroup v1) or in the one there is (v2).

Every process of every container of the lab is below it, which makes ending all of them certain.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from headway.lab.errors import LabError
from headway.lab.state import LabState

MOUNT = Path("/sys/fs/cgroup")
V2_CONTROLLERS = "+cpu +memory +pids +cpuset"


def node_root(state: LabState, node: int) -> str:
    """What a kubelet calls its `cgroupRoot`."""
    return f"/headway-lab-{state.identity}/node-{node}"


def create(state: LabState) -> None:
    for hierarchy in _hierarchies():
        try:
            for node in range(1, state.kubelets + 1):
                _create_below(hierarchy, node_root(state, node).strip("/"))
        except OSError as error:
            raise LabError(f"cgroups cannot be made below {hierarchy}: {error.strerror}") from error


def remove(state: LabState) -> None:
    """Kill whatever runs in the lab's subtree, then remove the subtree."""
    everywhere = {
        *_hierarchies(),
        MOUNT / "unified",
    }  # runc makes one in the unified hierarchy of a mixed system
    roots = [hierarchy / f"headway-lab-{state.identity}" for hierarchy in everywhere]
    deadline = time.monotonic() + 10
    while [root for root in roots if root.exists() and _try_remove(root)]:
        if time.monotonic() > deadline:
            raise LabError(f"processes in the cgroup {roots[0]} cannot be ended")
        time.sleep(0.02)


def kill_node(state: LabState, node: int) -> None:
    """Kill every process of every container of one node, as a power cut would."""
    for hierarchy in _hierarchies():
        for pid in _members(hierarchy / node_root(state, node).strip("/")):
            _kill(pid)


def _try_remove(root: Path) -> bool:
    """One round; tells whether anything is left."""
    for pid in _members(root):
        _kill(pid)
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        _remove_folder(folder)
    _remove_folder(root)
    return root.exists()


def _members(root: Path) -> set[int]:
    found: set[int] = set()
    for listing in [root / "cgroup.procs", *root.rglob("cgroup.procs")]:
        try:
            found.update(int(line) for line in listing.read_text().split())
        except OSError:  # the cgroup went away meanwhile
            continue
    return found - {0, os.getpid()}


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # still busy: the next round tries again
        folder.rmdir()


def _hierarchies() -> list[Path]:
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    folders = [path for path in MOUNT.iterdir() if path.is_dir() and not path.is_symlink()]
    return [path for path in folders if path.name != "unified"]


def _create_below(hierarchy: Path, relative: str) -> None:
    folder = hierarchy
    for step in Path(relative).parts:
        if hierarchy == MOUNT:
            (folder / "cgroup.subtree_control").write_text(V2_CONTROLLERS)
        parent, folder = folder, folder / step
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # on v1 a new cpuset is empty and takes no process
            if hierarchy != MOUNT and (parent / setting).exists():
                (folder / setting).write_text((parent / setting).read_text())
