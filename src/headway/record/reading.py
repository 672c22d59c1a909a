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

from headway.core.job import Can, Job
from headway.core.quantity import LARGEST
from headway.core.states import STATES
from headway.record.lines import (
    VERSION,
    Change,
    CycleLine,
    End,
    Head,
    JobLine,
    Line,
    NodesLine,
    PackedJob,
    PackedPlacement,
    unpack_job,
    unpack_plan,
    wrong_sample,
)
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
        past = _Past()
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

    def _checked(self, raw: bytes, past: _Past) -> Line:
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


class _Past:
    """What the lines so far have said, as far as the next must fit to it."""

    def __init__(self) -> None:
        self._begun = False
        self._nodes = self._kinds = self._last = self._cycle = -1
        self._roles: dict[int, int] = {}
        """Arrival number to number of roles."""

    def wrong(self, line: Line) -> str:
        """Why the line cannot follow, in a few words; empty if it can."""
        if isinstance(line, Head):
            return self._head(line)
        if not self._begun:
            return "the first line must be a head line"
        if isinstance(line, NodesLine):
            return self._table(line)
        if self._nodes < 0 and not isinstance(line, End):
            return "a job or a cycle comes before the nodes"
        if isinstance(line, JobLine):
            return self._job(line)
        return self._changes(line) if isinstance(line, CycleLine) else ""

    def _table(self, line: NodesLine) -> str:
        self._nodes, self._kinds = len(line.nodes), len(line.kinds)
        sound = all(0 <= amount <= LARGEST for node in line.nodes for _, amount in node.capacity)
        known = {kind for node in line.nodes for kind, _ in node.capacity} <= set(line.kinds)
        return "" if sound and known else "a node has an amount that no node can have"

    def _head(self, line: Head) -> str:
        """A resumed run counts anew."""
        self._begun = True
        self._nodes = self._kinds = self._last = self._cycle = -1
        self._roles = {}
        if line.version != VERSION:
            return f"this is a log of version {line.version}; this Headway reads version {VERSION}"
        return ""

    def _job(self, line: JobLine) -> str:
        if line.serial <= self._last:
            return f"job number {line.serial} comes after job number {self._last}"
        job = unpack_job(line.job)
        line.job = PackedJob(line.job, job)
        self._last, self._roles[line.serial] = line.serial, len(job.roles)
        return _wrong_job(job)

    def _changes(self, line: CycleLine) -> str:
        if line.cycle != self._cycle + 1:
            return f"cycle {line.cycle} comes where cycle {self._cycle + 1} is due"
        self._cycle = line.cycle
        for change in line.changed:
            roles = self._roles.get(change.serial)
            if roles is None:
                return f"the line of job number {change.serial} is missing"
            why = self._change(change, roles)
            if why:
                return f"job number {change.serial}: {why}"
        unpack_plan(line)
        if any(wrong_sample(sample) for sample in line.samples):
            return "a sample is malformed"
        unknown = [told[0] for told in (*line.beliefs, *line.speeds) if told[0] not in self._roles]
        return f"the line of job number {unknown[0]} is missing" if unknown else ""

    def _change(self, change: Change, roles: int) -> str:
        if not 0 <= change.state < len(STATES) or not 0 <= change.stops <= LARGEST:
            return "it has a state that no job can have"
        places = (change.placement, None if change.flight is None else change.flight[0])
        return next((why for place in places if place is not None and (why := self._misplaced(place, roles))), "")

    def _misplaced(self, place: PackedPlacement, roles: int) -> str:
        if not 1 <= len(place) <= 2 or any(len(part) != roles for part in place):
            return "its placement has another number of roles"
        for role in place[0]:
            if role is None or (role and not (min(role) >= 0 and max(role) < self._nodes)):
                return f"it is on a node that is not among the {self._nodes} nodes"
        for vector in place[1] if len(place) > 1 else ():
            if vector is not None and (len(vector) > self._kinds or not all(0 <= each <= LARGEST for each in vector)):
                return "it holds an amount that no node can have"
        return ""


def _wrong_job(job: Job) -> str:
    if abs(job.priority) > LARGEST or not 0 < job.replicas <= LARGEST or not 0 <= job.can <= Can.everything():
        return f"job {job.id[:60]!r} has a number that no job can have"
    amounts = [amount for role in job.roles for pairs in (role.request, role.limit) for _, amount in pairs]
    if any(not 0 <= role.least <= role.replicas <= role.most for role in job.roles):
        return f"job {job.id[:60]!r} has numbers of replicas that no job can have"
    sound = all(0 <= amount <= LARGEST for amount in amounts)
    return "" if sound else f"job {job.id[:60]!r} has an amount that no job can have"
