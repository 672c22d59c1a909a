"""The folders and locks of the lab: built programs in the user's cache, running labs in the user's state folder.

Sockets and container state are below /run, because the path of a Unix socket may have 107 bytes at most.
"""

from __future__ import annotations

import fcntl
import os
import sys
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
def locked(path: Path, waiting: str = "") -> Iterator[None]:
    """Holds a file lock and removes the file on release. The kernel frees the lock when the holder dies.

    `waiting` is said where another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting:
                    print(waiting, file=sys.stderr, flush=True)
                    waiting = ""
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(handle.fileno(), path):  # the previous holder has removed it
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
    """The lock for changes of the whole machine: network interfaces, kernel parameters."""
    return RUN_ROOT.with_suffix(".lock")
