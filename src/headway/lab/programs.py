"""The programs a lab runs, and where each comes from: the user's own, our cache of built ones, or the distribution.

Versions of those that we build are pinned in the go.mod files beside this module and read from there, so that they are
written once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache as remembered
from pathlib import Path

from headway.lab import paths
from headway.lab.errors import LabError, Unavailable

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


@dataclass(frozen=True, slots=True)
class Program:
    """One binary: which of our Go modules builds it, from which package, at which requirement's version."""

    name: str
    module: str
    package: str
    requirement: str
    skew: int = 0
    """By how many minor releases a copy of the user's own may differ from ours."""
    manifests: tuple[str, ...] = ()
    """Files of the module that the program's users need: definitions and webhooks."""

    @property
    def folder(self) -> Path:
        """Our go.mod."""
        return paths.GO_MODULES / self.module

    @property
    def version(self) -> str:
        return _pinned(self.folder / "go.mod", self.requirement)

    @property
    def manifests_folder(self) -> Path:
        return self.built.parent.parent / "manifests"

    @property
    def built(self) -> Path:
        """Where our own build of it is kept."""
        return paths.cache() / f"{self.module}-{self.version}" / "bin" / self.name


def _kubernetes(name: str, skew: int = 0) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", skew)


_KUBEBUILDER_LAYOUT = ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml")

PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", skew=1),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubectl", skew=1),
        _kubernetes("kubelet"),
        Program("coredns", "coredns", ".", "github.com/coredns/coredns"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
        Program("jobset", "jobset", "sigs.k8s.io/jobset", "sigs.k8s.io/jobset", manifests=_KUBEBUILDER_LAYOUT),
        Program(
            "training-operator",
            "training-operator",
            "github.com/kubeflow/training-operator/cmd/training-operator.v1",
            "github.com/kubeflow/training-operator",
            manifests=("manifests/base/crds/kubeflow.org_*.yaml", "manifests/base/webhook/manifests.yaml"),
        ),
        Program(
            "kueue",
            "kueue",
            "sigs.k8s.io/kueue/cmd/kueue",
            "sigs.k8s.io/kueue",
            manifests=_KUBEBUILDER_LAYOUT,
        ),
    )
}
"""In the order in which they are built: the first of a module compiles most of what the others need."""


def locate(name: str) -> Path | None:
    """The program's path: the user's own where its version fits, else ours where it has been built."""
    program = PROGRAMS[name]
    for candidate in () if program.manifests else _own_copies(name):
        if _fits(program, candidate):
            return candidate
    return program.built if os.access(program.built, os.X_OK) else None


def missing(names: Iterable[str]) -> list[Program]:
    wanted = set(names)
    return [program for name, program in PROGRAMS.items() if name in wanted and locate(name) is None]


def find(name: str) -> Path:
    path = locate(name)
    if path is None:
        raise LabError(f"{name} {PROGRAMS[name].version} has not been built yet: run `headway lab build`")
    return path


def _own_copies(name: str) -> list[Path]:
    folders = [os.environ.get("KUBEBUILDER_ASSETS"), os.environ.get("PATH")]
    found = [shutil.which(name, path=folder) for folder in folders if folder]
    return [Path(path) for path in found if path]


def _fits(program: Program, candidate: Path) -> bool:
    """Whether the user's copy is of the pinned minor release: another may serve other API versions."""
    have = _release(reported_version(candidate, candidate.stat().st_mtime_ns))
    want = _release(program.version)
    return have is not None and want is not None and have[0] == want[0] and abs(have[1] - want[1]) <= program.skew


@remembered
def reported_version(path: Path, _changed_ns: int = 0) -> str:
    """What the program says of itself; empty where it cannot be asked."""
    flags = ["version", "--client"] if path.name == "kubectl" else ["--version"]
    try:
        done = subprocess.run([path, *flags], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"v?\d+\.\d+\.\d+\S*", done.stdout)
    return found.group(0) if done.returncode == 0 and found else ""


def _release(version: str) -> tuple[int, int] | None:
    found = re.match(r"v?(\d+)\.(\d+)\.", version)
    return (int(found[1]), int(found[2])) if found else None


@remembered
def _pinned(go_mod: Path, requirement: str) -> str:
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(requirement)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise LabError(f"{go_mod} does not require {requirement}: the installation of headway is damaged")
    return found[1]


CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
PROGRAM_OF_PACKAGE = {
    "containerd": "containerd",
    "runc": "runc",
    "busybox-static": "busybox",
    "iproute2": "ip",
    "iptables": "iptables",
}
CNI_PACKAGE = "containernetworking-plugins"
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def missing_debian_packages() -> list[str]:
    found = [package for package, program in PROGRAM_OF_PACKAGE.items() if system_program(program) is None]
    if cni_folder() is None:
        found.append(CNI_PACKAGE)
    return found


def ensure_debian_packages() -> None:
    """Install what real nodes need; raises `Unavailable` with one sentence where that cannot be done."""
    missing = missing_debian_packages()
    if not missing:
        return
    names = " ".join(missing)
    if os.geteuid() != 0:
        raise Unavailable(f"real nodes need packages that are not installed: sudo apt-get install {names}")
    if shutil.which("apt-get") is None:
        raise Unavailable(f"real nodes need what Debian calls {names}; install it with this system's package manager")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    for command in (["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"apt-get install {names} failed: {reason}")


def check_real_nodes_possible() -> None:
    """Raise with the reason where kubelets cannot run here."""
    if os.geteuid() != 0:
        raise Unavailable(
            "real nodes need root (containers, cgroups and network interfaces);"
            " without --kubelets the lab runs as any user"
        )
    missing = missing_debian_packages()
    if missing:
        raise Unavailable(
            f"real nodes need packages that are not installed: run `headway lab deps` ({' '.join(missing)})"
        )


def system_program(name: str) -> str | None:
    """Like `which`, but also in the sbin folders that an ordinary user's PATH lacks."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SEARCH}")


def required_program(name: str) -> str:
    path = system_program(name)
    if path is None:
        raise LabError(f"'{name}' is not installed: run `headway lab deps`")
    return path


def cni_folder() -> Path | None:
    return next((folder for folder in CNI_FOLDERS if (folder / "bridge").exists()), None)
