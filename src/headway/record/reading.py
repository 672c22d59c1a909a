"""Reads a log back, and says up to where it is good.

Every line is checked against those before it: a line that is missing, swapped, cut or of another version is found where
it is, not cycles later. A last line without its end is what a killed run leaves; it is no damage.
"""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headway.record.line_order import Past
from headway.record.lines import CycleLine, Line
from headway.record.logfile import LogError

_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a line raises that has the form of a line but cannot follow those before it."""
_CHUNK = 1 << 12
"""Small, because of a damaged chunk nothing is read."""


class _Cut(Exception):  # noqa: N818  it names a fact
    """The file ends, or is damaged, inside a line."""


class LogReader:
    """Iterate over it. It stops with a `LogError` at the first line that is not good."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 0
        """The line that was read last."""
        self.good = 0
        """How many lines are good."""
        self.size = 0
        """How many bytes they have, not compressed."""
        self.cycle: int | None = None
        """The last good cycle."""

    def __iter__(self) -> Iterator[Line]:
        past = Past()
        try:
            for raw in _raw_lines(self.path):
                if not raw.endswith(b"\n"):
                    return
                self.line += 1
                line = self._checked(raw, past)
                yield line
                self.good, self.size = self.line, self.size + len(raw)
                if isinstance(line, CycleLine):
                    self.cycle = line.cycle
        except _Cut as cut:
            self.line += 1
            raise self.damaged(str(cut)) from cut
        except OSError as error:
            raise LogError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _checked(self, raw: bytes, past: Past) -> Line:
        try:
            line = _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.damaged(f"not a line of a headway log: {' '.join(str(error).split())}") from error
        try:
            why = past.wrong(line)
        except MALFORMED as error:
            raise self.damaged(f"not a line of a headway log: {type(error).__name__}: {error}") from error
        if why:
            raise self.damaged(why)
        return line

    def damaged(self, why: str) -> LogError:
        """The error that the line that was read last is not good."""
        told = why.replace("`", "'")[:300]
        if not self.good:
            return LogError(f"{self.path}, line {self.line}: {told}")
        upto = "" if self.cycle is None else f" (cycle {self.cycle})"
        return LogError(f"{self.path}, line {self.line}: {told}; the log is good up to line {self.good}{upto}")


def read(path: Path) -> Iterator[Line]:
    """The lines of a log, up to the last whole one."""
    return iter(LogReader(path))


def keep_good(path: Path) -> str:
    """Leaves the good part of a damaged log in its place, and the whole beside it as NAME.damaged.

    Returns what is wrong, in a sentence; empty if nothing is. Raises where not even the first line is good: such a file
    may be no log at all, and stays as it is.
    """
    reader = LogReader(path)
    try:
        for _ in reader:
            pass
    except LogError as error:
        if not reader.good:
            raise
        aside = _free_name(path)
        aside.touch(mode=0o600)
        shutil.copyfile(path, aside)
        _cut(path, reader.size)
        return f"{error}; the damaged log is kept as {aside.name}"
    return ""


def _free_name(path: Path) -> Path:
    number, name = 1, path.with_name(f"{path.name}.damaged")
    while name.exists():
        number += 1
        name = path.with_name(f"{path.name}.damaged-{number}")
    return name


def _cut(path: Path, size: int) -> None:
    """Keeps the first bytes, counted as they are not compressed."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if not zipped:
        os.truncate(path, size)
        return
    kept, content = path.with_name(f"{path.name}.part"), bytearray()
    for raw in _raw_lines(path):
        if len(content) + len(raw) > size:
            break
        content += raw
        if len(content) == size:
            break
    kept.write_bytes(gzip.compress(bytes(content), 1, mtime=0))
    kept.replace(path)


def _raw_lines(path: Path) -> Iterator[bytes]:
    """The lines with their ends, of a plain or a compressed log. The first bytes tell which it is."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not zipped:
            yield from file
            return
        parts: list[bytes] = []
        for piece in _inflated(iter(lambda: file.read(_CHUNK), b"")):
            first, newline, rest = piece.partition(b"\n")
            parts.append(first + newline)
            if newline:
                yield b"".join(parts)
                *whole, last = rest.split(b"\n")
                yield from (line + b"\n" for line in whole)
                parts = [last]
        if any(parts):
            yield b"".join(parts)


def _inflated(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What the members of a gzip file hold, one after the other."""
    member, begun = zlib.decompressobj(31), False
    for whole in chunks:
        chunk = whole
        while chunk := chunk if begun else chunk.lstrip(b"\0"):
            begun = True
            try:
                yield member.decompress(chunk)
            except zlib.error as error:
                raise _Cut(f"the gzip file is damaged: {error}") from error
            chunk = member.unused_data
            if not member.eof:
                break
            member, begun = zlib.decompressobj(31), False
    if begun:
        raise _Cut("the gzip file ends early")
