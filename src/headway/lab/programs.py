"""The programs that a lab runs, and where each comes from: the user, our cache of built ones, or the distribution.

The go.mod files beside this module pin the versions of the built ones.
"""

from __future__ import annotations

import hashlib
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
KUBERNETES = {"1.36": "kubernetes", "1.37": "kubernetes-1.37"}
"""The releases of Kubernetes that a lab can run, each with our Go module of it."""
RELEASE = "1.36"
"""The release of a lab that asks for none."""


@dataclass(frozen=True, slots=True)
class Program:
    """One binary: which of our Go modules builds it, from which package, at the version of which requirement."""

    name: str
    module: str
    package: str
    requirement: str
    skew: int = 0
    """The number of minor releases by which a copy of the user may differ from ours."""
    manifests: tuple[str, ...] = ()
    """Files of the module that an installation needs: definitions and webhooks."""

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
        """The path of our own build."""
        folder = paths.cache() / f"{self.module}-{self.version}" / "bin"
        return folder / (f"{self.name}-{_digest(self.folder / self.package)}" if self.is_ours else self.name)

    @property
    def is_ours(self) -> bool:
        """Whether its source is in our own module. Then nobody else has a copy, and an edited source is another one."""
        return self.package.startswith("./")


_OF_KUBERNETES = {
    "kube-apiserver": 0,
    "kube-controller-manager": 0,
    "kube-scheduler": 0,
    "kubectl": 1,
    "kubelet": 0,
    "kube-proxy": 0,
}
"""Its own programs, with the skew that each allows."""


def at_release(name: str, release: str) -> str:
    """The key in `PROGRAMS` for a release of Kubernetes; what is not part of Kubernetes has one key for all."""
    return f"{name}@{release}" if name in _OF_KUBERNETES and release != RELEASE else name


def _kubernetes(release: str) -> dict[str, Program]:
    return {
        at_release(name, release): Program(
            name, KUBERNETES[release], f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", skew
        )
        for name, skew in _OF_KUBERNETES.items()
    }


_KUBEBUILDER_LAYOUT = ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml")

PROGRAMS = {
    "etcd": Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", skew=1),
    **_kubernetes(RELEASE),
    "filter-check": Program("filter-check", "kubernetes", "./filter-check", "k8s.io/kubernetes"),
    "coredns": Program("coredns", "coredns", ".", "github.com/coredns/coredns"),
    "metrics-server": Program(
        "metrics-server",
        "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "sigs.k8s.io/metrics-server",
    ),
    "kwok": Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    "helm": Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4"),
    "jobset": Program("jobset", "jobset", "sigs.k8s.io/jobset", "sigs.k8s.io/jobset", manifests=_KUBEBUILDER_LAYOUT),
    "training-operator": Program(
        "training-operator",
        "training-operator",
        "github.com/kubeflow/training-operator/cmd/training-operator.v1",
        "github.com/kubeflow/training-operator",
        manifests=("manifests/base/crds/kubeflow.org_*.yaml", "manifests/base/webhook/manifests.yaml"),
    ),
    "kueue": Program(
        "kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue", "sigs.k8s.io/kueue", manifests=_KUBEBUILDER_LAYOUT
    ),
    **{key: program for release in KUBERNETES if release != RELEASE for key, program in _kubernetes(release).items()},
}
"""In build order: the first program of a module compiles most of what the others need."""


def locate(name: str) -> Path | None:
    """Returns the path of the user's copy if its version fits, else of ours if it is built, else None."""
    program = PROGRAMS[name]
    for candidate in () if program.manifests or program.is_ours else _own_copies(program.name):
        if _fits(program, candidate):
            return candidate
    return program.built if os.access(program.built, os.X_OK) else None


def missing(names: Iterable[str]) -> list[Program]:
    wanted = set(names)
    return [program for name, program in PROGRAMS.items() if name in wanted and locate(name) is None]


def find(name: str) -> Path:
    path = locate(name)
    if path is None:
        raise LabError(
            f"{PROGRAMS[name].name} {PROGRAMS[name].version} has not been built yet: run `headway lab build`"
        )
    return path


def _own_copies(name: str) -> list[Path]:
    folders = [os.environ.get("KUBEBUILDER_ASSETS"), os.environ.get("PATH")]
    found = [shutil.which(name, path=folder) for folder in folders if folder]
    return [Path(path) for path in found if path]


def _fits(program: Program, candidate: Path) -> bool:
    """Whether the user's copy has the pinned minor release. Another may serve other API versions."""
    have = _release(reported_version(candidate, candidate.stat().st_mtime_ns))
    want = _release(program.version)
    return have is not None and want is not None and have[0] == want[0] and abs(have[1] - want[1]) <= program.skew


@remembered
def reported_version(path: Path, _changed_ns: int = 0) -> str:
    """The version that the program prints; empty if it prints none."""
    flags = {"kubectl": ["version", "--client"], "helm": ["version"]}.get(path.name, ["--version"])
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


@remembered
def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.go")):
        found.update(file.read_bytes())
    return found.hexdigest()[:8]


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
    """Installs what real nodes need. Raises `Unavailable` if that is not possible."""
    missing = missing_debian_packages()
    if not missing:
        return
    names = " ".join(missing)
    if os.geteuid() != 0:
        raise Unavailable(f"real nodes need packages that are not installed: sudo apt-get install {names}")
    if shutil.which("apt-get") is None:
        raise Unavailable(
            f"real nodes need what Debian calls {names}: install it with the package manager of this system"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    for command in (["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"apt-get install {names} failed: {reason}")


def check_real_nodes_possible() -> None:
    """Raises with the reason if kubelets cannot run on this machine."""
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
    """Like `which`, but also searches the sbin folders that the PATH of an ordinary user lacks."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SEARCH}")


def required_program(name: str) -> str:
    path = system_program(name)
    if path is None:
        raise LabError(f"'{name}' is not installed: run `headway lab deps`")
    return path


def cni_folder() -> Path | None:
    return next((folder for folder in CNI_FOLDERS if (folder / "bridge").exists()), None)
