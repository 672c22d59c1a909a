"""A file that a command makes and others read: written in one step, read whole, refused in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

from headway.core.errors import UserError


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Who reads the path meanwhile finds the old file or the new one. A private one is for its owner only."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.touch(0o600 if private else 0o666)
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def read_whole(path: Path, most_bytes: int, what: str) -> bytes:
    """What: what the file should be, such as "a file of beliefs"."""
    try:
        if path.stat().st_size > most_bytes:
            raise UserError(f"{path}: is larger than {most_bytes >> 20} MiB; this is not {what}")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
