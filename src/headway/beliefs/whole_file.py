"""A file that a command makes and others read: written in one step, read whole, refused in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

from headway.core.errors import UserError
from headway.progress import whole_file


def write_whole(path: Path, content: bytes, *, private: bool = False, synced: bool = True) -> None:
    """Who reads the path meanwhile finds the old file or the new one. A private one is for its owner only."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with whole_file(path, part=part, permissions=0o600 if private else 0o666, synced=synced) as file:
            file.write(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def read_whole(path: Path, most_bytes: int, what: str) -> bytes:
    """What: what the file should be, such as "a file of beliefs"."""
    try:
        if path.stat().st_size > most_bytes:
            raise UserError(f"{path}: is larger than {most_bytes >> 20} MiB; this is not {what}")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
