"""Pods on real nodes: their one container image, and a template in which they run the host's own Python.

The image is made from the machine's static busybox, so no registry is needed. It is also the sandbox ("pause") image:
its default command sleeps. The template mounts folders of the host read-only at the same paths, so that a virtual
environment and scripts work inside a container as outside. Nothing is built or pulled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import headway
from headway.lab.errors import LabError
from headway.lab.programs import required_program

SYSTEM_PATHS = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
)


def pod_template(
    *, read_only: Iterable[Path], writable: Mapping[Path, str], python: Path, container: str = "main"
) -> dict[str, Any]:
    """A pod template whose container sees the given host folders. Add a command and resources to it.

    `writable`: a folder of the host, and where the container has it.
    """
    prefixes = [_prefix(python), _prefix(python.resolve())]
    fixed = [Path(path) for path in SYSTEM_PATHS if Path(path).exists()]
    ours = Path(headway.__file__).resolve().parents[1]  # the source of an editable install
    mounts = _outermost([*fixed, *prefixes, ours, *(path.absolute() for path in read_only)])
    places = [(path, str(path), True) for path in mounts]
    places += [(path.absolute(), str(Path(at).absolute()), False) for path, at in writable.items()]
    volumes, volume_mounts = [], []
    for number, (path, at, is_read_only) in enumerate(places):
        name = f"host-{number}"
        volumes.append({"name": name, "hostPath": {"path": str(path)}})
        volume_mounts.append({"name": name, "mountPath": at, "readOnly": is_read_only})
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": "/root", "PYTHONDONTWRITEBYTECODE": "1"}
    if os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return {
        "spec": {
            "containers": [
                {
                    "name": container,
                    "image": BASE_IMAGE,
                    "env": [{"name": name, "value": value} for name, value in environment.items()],
                    "volumeMounts": volume_mounts,
                }
            ],
            "volumes": volumes,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
        }
    }


def this_python() -> Path:
    """The interpreter that runs this program, inside its virtual environment."""
    return Path(sys.executable)


def _prefix(python: Path) -> Path:
    """The folder of a Python installation: two levels above bin/python."""
    return Path(os.path.normpath(python.absolute().parent.parent))


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Drops paths inside others: they are visible already, and a read-only folder cannot hold a mount point."""
    unique = sorted(set(paths), key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in unique:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


BASE_IMAGE = "headway.dev/lab/base:1"
FOLDERS = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "run", "var", "var/tmp")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(path: Path) -> None:
    """Writes the image in the format of `docker save`."""
    layer = _layer()
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "2147483647"], "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    encoded = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(encoded).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [BASE_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        _add(archive, "layer.tar", layer)
        _add(archive, config_name, encoded)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer() -> bytes:
    busybox = Path(required_program("busybox")).resolve()
    listing = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        raise LabError(f"{busybox} does not run: {listing.stderr.strip()}")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            layer.addfile(folder)
        for name, text in FILES.items():
            _add(layer, name, text.encode())
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in sorted(set(listing.stdout.split()) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
