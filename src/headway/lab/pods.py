"""Pods that run the host's own Python: its folders are mounted read-only at the very same paths.

So a virtual environment and scripts work inside a container as they do outside; nothing is built or pulled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import headway
from headway.lab.image import BASE_IMAGE

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
    *, read_only: Iterable[Path], writable: Iterable[Path], python: Path, container: str = "main"
) -> dict[str, Any]:
    """A pod template whose one container sees the given host folders; add a command and resources to it."""
    prefixes = [_prefix(python), _prefix(python.resolve())]
    fixed = [Path(path) for path in SYSTEM_PATHS if Path(path).exists()]
    ours = Path(headway.__file__).resolve().parents[1]  # where an editable install has its source
    mounts = _outermost([*fixed, *prefixes, ours, *(path.absolute() for path in read_only)])
    places = [(path, True) for path in mounts] + [(path.absolute(), False) for path in writable]
    volumes, volume_mounts = [], []
    for number, (path, is_read_only) in enumerate(places):
        name = f"host-{number}"
        volumes.append({"name": name, "hostPath": {"path": str(path)}})
        volume_mounts.append({"name": name, "mountPath": str(path), "readOnly": is_read_only})
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": "/root", "PYTHONDONTWRITEBYTECODE": "1"}
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
    """The folder an interpreter's installation lives in: bin/python's parent's parent."""
    return Path(os.path.normpath(python.absolute().parent.parent))


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Drop paths inside others: they are seen already, and no mount point can be made in a read-only one."""
    unique = sorted(set(paths), key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in unique:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
