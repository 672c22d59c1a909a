"""Where the lab keeps things: built programs in the user's cache, running labs in the user's state folder.

Sockets and container state go below /run, because a Unix socket's path may not be longer than 107 bytes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GO_MODULES = Path(__file__).parent / "go"
RUN_ROOT = Path("/run/headway-lab")


def cache() -> Path:
    """Built programs, shared by all labs and kept between them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "headway" / "lab"


def labs() -> Path:
    """One folder per running lab; `down` removes it."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "headway" / "lab"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock, removed on release; the kernel frees it when the holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(handle.fileno(), path):  # the one we waited for has removed it
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def machine_lock() -> Path:
    """Held while interfaces, kernel parameters and the like are changed: they are the whole machine's."""
    return RUN_ROOT.with_suffix(".lock")
