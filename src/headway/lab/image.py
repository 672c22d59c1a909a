"""The one container image of the lab, made from the machine's static busybox: no registry is needed.

It serves both as the pods' image and as the sandbox ("pause") image: left alone it sleeps.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path

from headway.lab.errors import LabError
from headway.lab.packages import required_program

BASE_IMAGE = "headway.dev/lab/base:1"
FOLDERS = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "run", "var", "var/tmp")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(path: Path) -> None:
    """Write the image in the format of `docker save`."""
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
