"""The programs that real nodes need from the Linux distribution, and how to get them on Debian and Ubuntu."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from headway.lab.errors import LabError, Unavailable

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
