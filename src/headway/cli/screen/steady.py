"""A stream that may break while jobs train: a pipe whose reader has gone, a file on a full disk, a lost terminal.

What a person would have seen is lost then. The jobs are not: nothing that is written here ever raises.
"""

from __future__ import annotations

import contextlib
import io
from typing import TextIO


class SteadyStream(io.TextIOBase):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return not self._stream.closed and self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()
