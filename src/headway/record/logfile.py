"""The file behind a log: only its owner may read it, and what cannot be written now is kept and written later."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
from pathlib import Path
from typing import IO, cast

from headway.core.errors import UserError
from headway.progress._disk import sync_folder

ENOUGH_BYTES = 1 << 16
"""So much is written at once where nobody asks for it earlier."""


MOST_PENDING_BYTES = 16 << 20
"""So much is kept in memory while the file cannot be written: hours of a large run."""


class LogError(UserError):
    """A log that cannot be read or written. The message is a sentence for the user."""


class LogFile:
    """Appends to a file; `path` None keeps nothing.

    A disk that is full must not lose lines. `flush` says whether all is written; if not, `trouble` says why,
    and the rest is kept for the next call.
    """

    def __init__(self, path: Path | None, *, fresh: bool) -> None:
        self._path = path
        self._pending = bytearray()
        self._named = False  # the folder's entry of the file is on the disk
        self.trouble = ""
        self.size = 0
        """Bytes in the file and to be written; of a compressed log those to be written count as they are."""
        try:
            self._file: IO[bytes] = io.BytesIO() if path is None else _open(path, fresh=fresh)
        except OSError as error:
            raise LogError(f"{path}: cannot be written: {error.strerror or error}") from error
        if path is not None and path.is_file():
            self.size = path.stat().st_size

    def append(self, line: bytes) -> None:
        if self._path is not None:
            self._pending += line
            self.size += len(line)

    def has_enough(self) -> bool:
        return len(self._pending) >= ENOUGH_BYTES

    def is_full(self) -> bool:
        """Whether no more should be kept in memory."""
        return len(self._pending) >= MOST_PENDING_BYTES

    @property
    def closed(self) -> bool:
        return self._file.closed

    def flush(self) -> bool:
        try:
            while self._pending:
                written = self._file.write(self._pending)
                del self._pending[:written]
        except OSError as error:
            self.trouble = f"{self._path}: cannot be written: {error.strerror or error}"
            return False
        self.trouble = ""
        return True

    def sync(self) -> bool:
        """As `flush`; what was written also outlives a power cut when this returns."""
        if not self.flush() or self._path is None:
            return not self.trouble
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self.trouble = f"{self._path}: cannot be written: {error.strerror or error}"
            return False
        if not self._named:
            self._named = True
            sync_folder(self._path.parent)
        return True

    def flush_or_raise(self) -> None:
        if not self.flush():
            raise LogError(self.trouble)

    def close(self) -> None:
        """Raises if some lines could not be written."""
        if self._file.closed:
            return
        try:
            self.flush_or_raise()
            self._file.close()
        except OSError as error:
            raise LogError(f"{self._path}: cannot be written: {error.strerror or error}") from error
        finally:
            with contextlib.suppress(OSError):
                self._file.close()


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner may read: an `opener` for `open`."""
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
        with contextlib.suppress(OSError):  # another's file
            os.fchmod(descriptor, 0o600)
    return descriptor


def _open(path: Path, *, fresh: bool) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh and path.is_file():  # never a device such as /dev/null
        path.unlink()
    if path.suffix == ".gz":
        os.close(private(str(path), os.O_WRONLY | os.O_CREAT))
        return cast(IO[bytes], gzip.open(path, "ab", compresslevel=1))
    _drop_torn_line(path)
    return open(path, "ab", buffering=0, opener=private)


def _drop_torn_line(path: Path) -> None:
    """Removes half a line that a killed run may have left: appending to it would spoil the next line."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        while size and file.seek(size - 1) >= 0 and file.read(1) != b"\n":
            size -= 1
        file.truncate(size)
