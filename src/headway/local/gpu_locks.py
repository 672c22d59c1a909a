"""The locks of GPUs, which hold between all users of a machine.

Example: two users run Headway, and both find GPU 0 idle. The first replica locks its file, and the other's start is
refused for now. All users may open and lock a file; only its maker may write or replace it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

SHARED = "/tmp/headway-gpus"  # noqa: S108  shared on purpose, and safe: see `lock_folder` and `locked`
"""Where every user may make a file, and nobody removes another's. Who cleans up there leaves locked files alone."""
OPEN_TO_ALL = stat.S_ISVTX | 0o777


def lock_folder(env: Mapping[str, str], own: Path) -> Path:
    """The folder of the locks: that of the run where there can be none that all users share."""
    folder = Path(env.get("HEADWAY_GPU_LOCKS") or SHARED)
    with contextlib.suppress(OSError):
        _make(folder)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == OPEN_TO_ALL:
            return folder
    return own


def _make(folder: Path) -> None:
    """Makes it with its rights at once: nobody may see it without them."""
    if os.path.lexists(folder):
        return
    fresh = Path(tempfile.mkdtemp(dir=folder.parent))
    fresh.chmod(OPEN_TO_ALL)
    try:
        fresh.rename(folder)
    except OSError:  # another user was first
        fresh.rmdir()


def locked(path: Path, how: int) -> int:
    """The file, open and locked, also by who may not write it. BlockingIOError: others have it."""
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), path.lstat()):
                return file
        except FileNotFoundError:
            pass
        except OSError:
            os.close(file)
            raise
        os.close(file)  # it was removed between: another one counts


def _opened(path: Path) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        with tempfile.NamedTemporaryFile(dir=path.parent) as fresh, contextlib.suppress(FileExistsError):
            os.fchmod(fresh.fileno(), 0o644)
            os.link(fresh.name, path)
        return os.open(path, flags)
