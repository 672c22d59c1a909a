"""Makes the files that Headway reads from clones of the repositories that publish them. Nothing is downloaded.

Most files stay as they are, gzipped where our name for them ends in .gz. Philly's and ITP's are cut or converted, each
in one way.
"""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from headway.core.errors import UserError
from headway.workload.errors import WorkloadError
from headway.workload.origins.table import Origin, Repository

LEFT_OUT = ("2869ce", "7f04ca")
"""Virtual clusters of Philly that are not in `philly_jobs.csv.gz`."""
ITP_CLUSTERS = ("cluster01", "cluster02", "cluster04", "cluster05", "cluster07", "cluster08", "cluster09")


@dataclass(frozen=True, slots=True)
class Way:
    """How a file is made of a published one."""

    about: str
    make: Callable[[Path], bytes]


@dataclass(frozen=True, slots=True)
class Converted:
    made: tuple[Origin, ...]
    kept: tuple[Origin, ...]
    """Were there, with the same content."""
    other: tuple[Origin, ...]
    """Were made, but what was published is not what the table says."""
    absent: Mapping[Repository, tuple[Origin, ...]]
    """What could not be made, because the clone is not there or has not that file."""


def convert(clones: Path, folder: Path, wanted: Sequence[Origin], tell: Callable[[float], None]) -> Converted:
    """Into the folder, from the clones in `clones`. A file of other content is never overwritten."""
    made: list[Origin] = []
    kept: list[Origin] = []
    other: list[Origin] = []
    absent: dict[Repository, tuple[Origin, ...]] = {}
    for number, one in enumerate(wanted):
        tell(number / len(wanted))
        source, target = clones / one.repository.folder / one.published, folder / one.file
        if target.exists():
            if digest(content_of(target)) != one.sha256:
                raise UserError(f"{target}: is there, with other content; move it away or name another folder")
            kept.append(one)
        elif not source.is_file():
            absent[one.repository] = (*absent.get(one.repository, ()), one)
        else:
            content = _made(one, source)
            _write(target, content)
            (made if digest(content) == one.sha256 else other).append(one)
    return Converted(tuple(made), tuple(kept), tuple(other), absent)


def _made(one: Origin, source: Path) -> bytes:
    try:
        return WAYS[one.way].make(source)
    except (KeyError, ValueError, TypeError, IndexError, tarfile.TarError, EOFError, zlib.error) as error:
        raise WorkloadError(f"{source}: this is not the published file: {error}") from error


def content_of(path: Path) -> bytes:
    """As it is before compression. The first bytes, not the name, tell whether it is gzip."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise WorkloadError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _write(target: Path, content: bytes) -> None:
    if target.name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    half = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        half.write_bytes(content)
        half.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from error


# ── the ways ──────────────────────────────────────────────────────────────────────────────────────────────────


def _philly(source: Path) -> bytes:
    jobs = _philly_log(source)
    zero = jobs[0].at
    return _csv(
        ("job_id", "submit_s", "submit_time", "duration_s", "num_gpus", "vc"),
        ((number, _seconds(zero, one.at), one.at, one.seconds, one.gpus, one.cluster)
         for number, one in enumerate(jobs) if one.cluster not in LEFT_OUT),
    )  # fmt: skip


def _philly_ee9e8c(source: Path) -> bytes:
    return _in_tiresias_form([one for one in _philly_log(source) if one.cluster == "ee9e8c"][:480])


def _philly_5000(source: Path) -> bytes:
    return _in_tiresias_form(_philly_log(source)[10_000:15_000])


@dataclass(frozen=True, slots=True, order=True)
class _PhillyJob:
    at: datetime
    cluster: str
    seconds: int
    gpus: int


def _philly_log(source: Path) -> list[_PhillyJob]:
    """Sorted by submission, virtual cluster, duration and GPUs."""
    return sorted(
        _PhillyJob(
            datetime.fromisoformat(row["timestamp"]), row["cluster"], int(float(row["duration"])), int(row["num_gpus"])
        )
        for row in csv.DictReader(io.StringIO(content_of(source).decode()))
    )


def _in_tiresias_form(jobs: Sequence[_PhillyJob]) -> bytes:
    submits = [_seconds(jobs[0].at, one.at) for one in jobs]
    gaps = [after - before for before, after in zip(submits, [*submits[1:], submits[-1]], strict=True)]
    return _csv(
        ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval", "vc"),
        ((number, one.gpus, submits[number], 1000, "resnet50", one.seconds, gaps[number], one.cluster)
         for number, one in enumerate(jobs)),
    )  # fmt: skip


def _itp(source: Path) -> bytes:
    rows: list[tuple[object, ...]] = []
    with tarfile.open(source) as archive:
        for cluster in ITP_CLUSTERS:
            member = archive.extractfile(f"{cluster}.csv")
            if member is None:
                raise KeyError(f"{cluster}.csv in it is no file")
            text = io.TextIOWrapper(member, encoding="utf-8", newline="")
            jobs = sorted(csv.DictReader(text), key=lambda row: (int(row["submission_time"]), row["job_id"]))
            rows += [
                (cluster, number, row["submission_time"], row["duration"], row["num_gpu"], row["model_name"],
                 row["batch_size"], row["num_iteration"], row["deadline"])
                for number, row in enumerate(jobs)
            ]  # fmt: skip
    names = ("cluster", "job", "submit_s", "duration_s", "num_gpu", "model_name", "batch_size", "num_iteration",
             "deadline_s")  # fmt: skip
    return _csv(names, rows)


def _csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode()


def _seconds(zero: datetime, at: datetime) -> int:
    return int((at - zero).total_seconds())


_SORTED = "sorted by submission, virtual cluster, duration and GPUs"
_PLACEHOLDERS = "submissions count from the first of them; iterations (1000) and model (resnet50) say nothing"
WAYS: Mapping[str, Way] = {
    "as published": Way("as published", content_of),
    "philly": Way(
        f"{_SORTED}; job_id is the row's number from 0, submit_s counts from the first row; then the virtual clusters "
        f"{' and '.join(LEFT_OUT)} are left out, and the column gpu_time",
        _philly,
    ),
    "philly ee9e8c": Way(f"{_SORTED}; the first 480 jobs of virtual cluster ee9e8c; {_PLACEHOLDERS}", _philly_ee9e8c),
    "philly 5000": Way(f"{_SORTED}; rows 10,000 to 14,999 from 0; {_PLACEHOLDERS}", _philly_5000),
    "itp": Way(
        f"{', '.join(ITP_CLUSTERS)} of the archive one after the other, each sorted by submission and job_id; job is "
        "the row's number in its cluster, and stands for the job_id",
        _itp,
    ),
}
