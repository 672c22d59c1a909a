"""Reads tables line by line, plain or gzipped, and collects the jobs of their rows. Errors name file, line and field.

Published traces are separated by commas or tabs, with or without a header. `Rows` reads them and knows nothing of jobs.
`Collector` has the checks that all formats share, and counts the rows that were left out.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TextIO

from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.core.quantity import GPU, LARGEST
from headway.jobspec import MOST_REPLICAS
from headway.workload.errors import WorkloadError
from headway.workload.trace import Expectation, Trace
from headway.workload.yaml_values import shortened


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Opens the file as text. The first bytes, not the name, tell whether it is gzip."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            source = gzip.GzipFile(fileobj=raw) if zipped else raw
            with io.TextIOWrapper(source, encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: this is not a text file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WorkloadError(f"{path}: the gzip file is damaged: {error}") from error
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror or error}") from error


def first_line(path: Path) -> str:
    """The first line without its end, to find out the format of a file."""
    with opened(path) as text:
        return text.readline(65536).rstrip("\r\n")


def bare_name(path: Path) -> str:
    """The name of the file in lower case without .gz."""
    return path.name.lower().removesuffix(".gz")


class Rows:
    """Iterate over it: it yields itself once per line, and its methods read the fields of that line."""

    def __init__(
        self, path: Path, needs: Sequence[str], *, header: Sequence[str] | None = None, separator: str = ","
    ) -> None:
        self.path = path
        self.line = 0
        self._needs = needs
        self._header = header
        self._separator = separator
        self._cells: list[str] = []
        self._column: dict[str, int] = {}

    def __iter__(self) -> Iterator[Rows]:
        with opened(self.path) as text:
            reader = csv.reader(text, delimiter=self._separator)
            try:
                names = self._header or next(reader, None)
                if names is None:
                    raise WorkloadError(f"{self.path}: the file is empty")
                self._learn([name.strip() for name in names])
                width = len(names)
                for cells in reader:
                    self.line = reader.line_num
                    if not cells:
                        continue
                    if len(cells) != width:
                        raise self.error("", f"has {len(cells)} columns instead of {width}")
                    self._cells = cells
                    yield self
            except csv.Error as error:
                raise WorkloadError(f"{self.path}, line {reader.line_num}: {error}") from error

    def _learn(self, names: list[str]) -> None:
        self._column = {name: number for number, name in enumerate(names)}
        if len(self._column) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise WorkloadError(f"{self.path}, line 1: field {shortened(twice)}: the column exists twice")
        missing = [name for name in self._needs if name not in self._column]
        if missing:
            raise WorkloadError(f"{self.path}, line 1: field {missing[0]}: there is no such column")

    def has(self, field: str) -> bool:
        return field in self._column

    def error(self, field: str, what: str) -> WorkloadError:
        return WorkloadError(f"{self.path}, line {self.line}: {f'field {field}: ' if field else ''}{what}")

    def text(self, field: str, default: str = "") -> str:
        number = self._column.get(field)
        return default if number is None else self._cells[number].strip()

    def filled(self) -> dict[str, str]:
        """All cells that are not empty, by column."""
        return {name: cell.strip() for name, cell in zip(self._column, self._cells, strict=True) if cell.strip()}

    def _cell(self, field: str) -> str:
        number = self._column.get(field)
        if number is None:
            raise self.error(field, "there is no such column")
        return self._cells[number]

    def number(self, field: str) -> float:
        """A finite number."""
        text = self._cell(field)
        try:
            value = float(text)
        except ValueError:
            raise self.error(field, f"{shortened(text)!r} is not a number") from None
        if not math.isfinite(value):
            raise self.error(field, f"{shortened(text)!r} is not finite")
        return value

    def seconds(self, field: str) -> float:
        """A number of seconds, 0 or more."""
        value = self.number(field)
        if value < 0:
            raise self.error(field, f"must be 0 or more, is {value:g}")
        return value

    def count(self, field: str) -> int:
        """A whole number, 0 or more, and small enough to be reckoned with; `8.0` is accepted."""
        text = self._cell(field)
        try:
            value = int(text)
        except ValueError:
            number = self.number(field)
            value = int(number)
            if value != number:
                raise self.error(field, f"must be a whole number, not {shortened(text)!r}") from None
        if not 0 <= value <= MOST:
            most = f"{MOST} or less" if value > 0 else "0 or more"
            raise self.error(field, f"must be {most}, is {shortened(text)}")
        return value

    def amount(self, field: str, each: int = 1) -> int:
        """A whole number times `each`; the result is `LARGEST` at most, which is what columns of amounts can hold."""
        value = self.count(field) * each
        if value > LARGEST:
            raise self.error(field, f"must be {LARGEST // each} or less, is {shortened(str(value // each))}")
        return value

    def time(self, field: str) -> float:
        """A date with time, as seconds since 1970. Without a time zone it is UTC."""
        return moment(self.text(field), self, field)


def moment(text: str, rows: Rows, field: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise rows.error(field, f"{shortened(text)!r} is not a date with time such as 2020-06-09 18:41:01") from None
    if at.tzinfo is None:
        return (at - _EPOCH).total_seconds()
    return at.timestamp()


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  both sides are without a zone


NO_GPU = "ask for no GPU"
MOST = 10**15
"""A count beyond this is a mistake; up to here, a float holds every whole number."""


@cache
def gpu_roles(gpus: int, accelerator: str = "") -> tuple[Role, ...]:
    """A gang of one-GPU workers. Equal sizes share one object: a trace of 80,000 jobs has about ten sizes."""
    return (
        Role(
            name="worker", replicas=gpus, min=gpus, max=gpus, request=((GPU, 1),), accelerator=accelerator
        ),
    )  # fmt: skip


@cache
def elastic_roles(gpus: int, most: int) -> tuple[Role, ...]:
    """A gang of one-GPU workers that may run at any size up to `most`."""
    return (Role(name="worker", replicas=gpus, min=1, max=max(gpus, most), request=((GPU, 1),)),)


def plain_name(text: str) -> str:
    """A published model name in the form of profile names: lower case, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


class Collector:
    """Collects the jobs of one file. A second job of the same name is an error; dropped rows are counted."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.truth: dict[JobId, float] = {}
        self.seconds_on: dict[JobId, dict[str, float]] = {}
        self.expectations: dict[JobId, Expectation] = {}
        self.dropped: Counter[str] = Counter()
        self.remarks: Counter[str] = Counter()
        self._jobs: list[Job] = []
        self._lines: dict[JobId, int] = {}
        self.known_roles: dict[bytes, tuple[Role, ...]] = {}
        """For formats whose roles are not gangs of one-GPU workers: equal roles share one object."""

    def job_id(self, name: str, field: str) -> JobId:
        if not name:
            raise self.rows.error(field, "must not be empty")
        job_id = JobId(name)
        if job_id in self._lines:
            raise self.rows.error(
                field, f"two jobs are called {shortened(name)!r} (the other is in line {self._lines[job_id]})"
            )
        self._lines[job_id] = self.rows.line
        return job_id

    def asking(self, *fields: str, lasting: str = "") -> Iterator[tuple[Rows, int]]:
        """Yields the rows that request GPUs, and how many: the product of `fields`. Drops rows without `lasting`."""
        for row in self.rows:
            gpus = math.prod(row.count(field) for field in fields)
            if not gpus:
                self.drop(NO_GPU)
            elif lasting and not row.text(lasting):
                self.drop("have no duration")
            else:
                yield row, gpus

    def roles(self, gpus: int, field: str, accelerator: str = "") -> tuple[Role, ...]:
        if not 0 < gpus <= MOST_REPLICAS:
            raise self.rows.error(field, f"must be between 1 and {MOST_REPLICAS}, not {shortened(str(gpus))}")
        return gpu_roles(gpus, accelerator)

    def add(self, job: Job) -> None:
        self._jobs.append(job)

    def drop(self, why: str) -> None:
        self.dropped[why] += 1

    def trace(self, name: str, *notes: str, nodes: tuple[Node, ...] = ()) -> Trace:
        path = self.rows.path
        counted = [f"{count} rows dropped: they {why}" for why, count in self.dropped.items()]
        counted += [f"{count} jobs {what}" for what, count in self.remarks.items()]
        if not self._jobs:
            raise WorkloadError(f"{path}: the file has no job" + "".join(f"; {note}" for note in counted))
        self._jobs.sort(key=_submit)
        return Trace(
            name=f"{name}/{stem(path)}", jobs=tuple(self._jobs), nodes=nodes, truth=self.truth or None,
            seconds_on=self.seconds_on, expectations=self.expectations, notes=(*counted, *notes),
        )  # fmt: skip


def _submit(job: Job) -> float:
    return job.submit


def stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rsplit(".", 1)[0]


def beside(path: Path, *names: str) -> Path | None:
    """Returns a file of one of these names, gzipped or not, in the same folder, or None."""
    for name in names:
        for candidate in (path.with_name(name), path.with_name(name + ".gz")):
            if candidate.is_file():
                return candidate
    return None
