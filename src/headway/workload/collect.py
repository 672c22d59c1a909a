"""From rows of a trace to jobs: the checks that every adapter shares, and the count of what was left out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from headway.core.job import Job, JobId, Role
from headway.core.node import Node
from headway.core.quantity import GPU
from headway.workload.errors import WorkloadError
from headway.workload.rows import Rows
from headway.workload.trace import Expectation, Trace

NO_GPU = "ask for no GPU"
MOST_REPLICAS = 1_000_000


@cache
def gpu_roles(gpus: int, accelerator: str = "") -> tuple[Role, ...]:
    """A gang of one-GPU workers. Equal sizes share one object: a trace of 80,000 jobs has some ten of them."""
    return (
        Role(
            name="worker", replicas=gpus, least=gpus, most=gpus, request=((GPU, 1),), accelerator=accelerator
        ),
    )  # fmt: skip


@cache
def elastic_roles(gpus: int, most: int) -> tuple[Role, ...]:
    """The same for jobs that may run at any size up to `most`."""
    return (Role(name="worker", replicas=gpus, least=1, most=max(gpus, most), request=((GPU, 1),)),)


def plain_name(text: str) -> str:
    """A published model name as profiles are kept under: small letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


class Collector:
    """Takes the jobs of one file. A second job of the same name is an error; what is dropped is counted."""

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
        """For adapters whose roles are not gangs of one-GPU workers: equal roles are one object."""

    def job_id(self, name: str, field: str) -> JobId:
        if not name:
            raise self.rows.error(field, "must not be empty")
        job_id = JobId(name)
        if job_id in self._lines:
            raise self.rows.error(field, f"two jobs are called {name!r} (the other is in line {self._lines[job_id]})")
        self._lines[job_id] = self.rows.line
        return job_id

    def asking(self, *fields: str, lasting: str = "") -> Iterator[tuple[Rows, int]]:
        """Rows that ask for GPUs, with how many: the product of these fields. `lasting` must not be empty either."""
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
            raise self.rows.error(field, f"must be between 1 and {MOST_REPLICAS}, not {gpus}")
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
            raise WorkloadError(f"{path}: there is no job in it" + "".join(f"; {note}" for note in counted))
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
    """A file of one of these names, gzipped or not, in the same folder."""
    for name in names:
        for candidate in (path.with_name(name), path.with_name(name + ".gz")):
            if candidate.is_file():
                return candidate
    return None
