"""What real nodes change on the machine outside their own folders, and how to put it back.

kubelet sets kernel parameters; containerd and the network plugins leave files in fixed places. The values are saved
before the first lab with real nodes starts and restored when the last one ends. Every lab has one cgroup subtree, in
every hierarchy (cgroup v1) or in the only one (v2). All processes of all its containers are below it, so all of them
can be found and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from headway.lab import paths
from headway.lab.errors import LabError
from headway.lab.programs import required_program
from headway.lab.state import LabState

PARAMETERS = (
    "net/ipv4/ip_forward",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
FIXED_FOLDERS = (
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/lib/cni/results",
    "/var/lib/cni/cache",
    "/var/lib/cni",
    "/run/containerd/s",
    "/run/containerd/fifo",
    "/run/containerd",
)
"""Folders that kubelet, containerd or the network plugins always create; inner ones first."""


def remember() -> None:
    """Saves the present values before the first real node changes them. Call it under the machine's lock."""
    note = _note()
    if note.exists():
        return
    before = {
        "parameters": {name: Path("/proc/sys", name).read_text().strip() for name in _present()},
        "absent": [folder for folder in FIXED_FOLDERS if not Path(folder).exists()],
    }
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(before, indent=2))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    hears_bridges = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if hears_bridges.exists():  # else an answer from a pod of the same node passes by kube-proxy's rules
        hears_bridges.write_text("1")


def restore() -> None:
    """Restores the saved values. Call it under the machine's lock, when no lab with real nodes is left."""
    note = _note()
    if not note.exists():
        return
    before = json.loads(note.read_text())
    for name, value in before["parameters"].items():
        path = Path("/proc/sys", name)
        if path.read_text().strip() != value:
            path.write_text(value)
    for folder in before["absent"]:
        _remove_made(Path(folder))
    note.unlink()
    if not any(paths.RUN_ROOT.iterdir()):
        paths.RUN_ROOT.rmdir()


def is_last(state: LabState) -> bool:
    """Whether no other lab with real nodes is up on this machine, of any user."""
    return not any(path.is_dir() and path != state.run_folder for path in paths.RUN_ROOT.glob("*"))


def remove_leavings(state: LabState) -> None:
    """Removes mounts, shim sockets, network results and log links of this lab, after its processes have ended."""
    tasks = list(state.run_folder.glob("*/state/io.containerd.runtime.v2.task/*/*"))
    for task in tasks:
        _remove_shim_socket(task / "address")
    _unmount_below([state.run_folder, state.folder])
    sandboxes = [*tasks, *state.folder.glob("node-*/containerd/io.containerd.grpc.v1.cri/sandboxes/*")]
    names = [f"headway-lab-{state.identity}-*", *(f"cni-loopback-{path.name}-*" for path in sandboxes)]
    for folder in ("/var/lib/cni/results", "/var/lib/cni/cache/results"):
        for result in (path for name in names for path in Path(folder).glob(name)):
            result.unlink(missing_ok=True)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(str(state.folder)):
            link.unlink(missing_ok=True)
    shutil.rmtree(state.run_folder, ignore_errors=True)


def _remove_shim_socket(note: Path) -> None:
    if note.exists():
        socket = Path(note.read_text().removeprefix("unix://"))
        if socket.parent == Path("/run/containerd/s"):
            socket.unlink(missing_ok=True)


def _unmount_below(folders: list[Path]) -> None:
    """Unmounts lazily, innermost first. Raises if a mount is left, because the caller then deletes the folders."""
    for point in reversed(_mounts_below(folders)):
        subprocess.run([required_program("umount"), "-l", point], capture_output=True, check=False)
    left = _mounts_below(folders)
    if left:
        raise LabError(f"{left[0]} cannot be unmounted; unmount it, then run `headway lab down` again")


def _mounts_below(folders: list[Path]) -> list[str]:
    prefixes = tuple(f"{folder}/" for folder in folders)
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(prefixes)]


def _remove_made(folder: Path) -> None:
    """Removes a folder that the lab created, unless another program has put something into it."""
    if folder.name == "device-plugins":
        for name in ("kubelet.sock", "DEPRECATION", "kubelet_internal_checkpoint"):
            (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _present() -> list[str]:
    return [name for name in PARAMETERS if Path("/proc/sys", name).exists()]


def _note() -> Path:
    return paths.RUN_ROOT / "machine-before.json"


# ── one cgroup subtree per lab ───────────────────────────────────────────────────────────────────────────

MOUNT = Path("/sys/fs/cgroup")
V2_CONTROLLERS = "+cpu +memory +pids +cpuset"


def node_cgroup(state: LabState, node: int) -> str:
    """The `cgroupRoot` of a kubelet."""
    return f"/headway-lab-{state.identity}/node-{node}"


def create_cgroups(state: LabState) -> None:
    for hierarchy in _hierarchies():
        try:
            for node in range(1, state.kubelets + 1):
                _create_cgroup(hierarchy, node_cgroup(state, node).strip("/"))
        except OSError as error:
            raise LabError(f"cgroups cannot be made below {hierarchy}: {error.strerror}") from error


def remove_cgroups(state: LabState) -> None:
    """Kills all processes in the cgroup subtree of the lab, then removes the subtree."""
    everywhere = {
        *_hierarchies(),
        MOUNT / "unified",
    }  # runc makes one in the unified hierarchy of a mixed system
    roots = [hierarchy / f"headway-lab-{state.identity}" for hierarchy in everywhere]
    deadline = time.monotonic() + 10
    while [root for root in roots if root.exists() and _try_remove_cgroups(root)]:
        if time.monotonic() > deadline:
            raise LabError(f"processes in the cgroup {roots[0]} cannot be ended")
        time.sleep(0.02)


def kill_node(state: LabState, node: int) -> None:
    """Kills every process of every container of one node, as a power cut would."""
    for hierarchy in _hierarchies():
        for pid in _members(hierarchy / node_cgroup(state, node).strip("/")):
            _kill(pid)


def _try_remove_cgroups(root: Path) -> bool:
    """One round; returns whether anything is left."""
    for pid in _members(root):
        _kill(pid)
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        _remove_cgroup(folder)
    _remove_cgroup(root)
    return root.exists()


def _members(root: Path) -> set[int]:
    found: set[int] = set()
    for listing in [root / "cgroup.procs", *root.rglob("cgroup.procs")]:
        try:
            found.update(int(line) for line in listing.read_text().split())
        except OSError:  # the cgroup is gone
            continue
    return found - {0, os.getpid()}


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _remove_cgroup(folder: Path) -> None:
    with contextlib.suppress(OSError):  # still busy: the next round tries again
        folder.rmdir()


def _hierarchies() -> list[Path]:
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    folders = [path for path in MOUNT.iterdir() if path.is_dir() and not path.is_symlink()]
    return [path for path in folders if path.name != "unified"]


def _create_cgroup(hierarchy: Path, relative: str) -> None:
    folder = hierarchy
    for step in Path(relative).parts:
        if hierarchy == MOUNT:
            (folder / "cgroup.subtree_control").write_text(V2_CONTROLLERS)
        parent, folder = folder, folder / step
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # on v1 a new cpuset is empty and accepts no process
            if hierarchy != MOUNT and (parent / setting).exists():
                (folder / setting).write_text((parent / setting).read_text())
