"""Jobs that `headway add` put into the queue of a jobs file: one file each, in the folder `added` of its state folder.

A file is written whole or not at all, so a run may look at the folder at any time. Only its owner may read it: it has
the values of `env:`. `run.json` beside the folder tells which files and nodes the last run had, so that a job can be
checked where it is added.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.node import Node
from headway.jobspec import NAME
from headway.record.line_order import wrong_job
from headway.record.lines import pack_job, unpack_job

AGAIN = "again"
"""A file in the folder: whenever it changes, jobs that failed run again."""


class AddedJob(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    """Where its user wrote it."""
    asked: int
    """When it was added, in nanoseconds since 1970. The same job added again runs again if it had failed."""
    job: dict[str, object]
    env: list[list[tuple[str, str]]] = []
    """By role."""

    def whole(self) -> Job:
        """Raises ValueError where the file is damaged."""
        job = unpack_job(self.job)
        if len(self.env) != len(job.roles) or not NAME.fullmatch(job.id) or wrong_job(job):
            raise ValueError(wrong_job(job) or "it is not whole")
        roles = zip(job.roles, self.env, strict=True)
        return replace(job, roles=tuple(replace(role, env=tuple(map(tuple, env))) for role, env in roles))  # type: ignore[arg-type]


class RunCard(msgspec.Struct):
    """What a run tells those who add jobs to it."""

    files: list[str]
    nodes: list[Node]
    settings: list[str] = []
    pid: int = 0


def put(folder: Path, jobs: Iterable[Job], file: Path) -> None:
    """Adds these jobs, or puts them in the place of added ones of their name."""
    for job in jobs:
        bare = replace(job, roles=tuple(replace(role, env=()) for role in job.roles))
        env = [list(role.env) for role in job.roles]
        added = AddedJob(str(file.resolve()), time.time_ns(), dict(pack_job(bare)), env)
        try:
            content = msgspec.json.encode(added)
        except UnicodeEncodeError as error:
            raise UserError(f"{file}: job {job.id!r}: has a text that no file can hold") from error
        _write(_place(folder) / f"{job.id}.json", content)


def ask_again(folder: Path) -> None:
    """Asks a run to run its failed jobs again."""
    _write(_place(folder) / AGAIN, str(time.time_ns()).encode())


def take_out(folder: Path, job: JobId) -> bool:
    """Whether there was one."""
    try:
        (folder / "added" / f"{job}.json").unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UserError(f"{folder / 'added'}: cannot be written: {error.strerror}") from error
    return True


def added_jobs(folder: Path) -> dict[JobId, tuple[AddedJob, Job]]:
    """By name. A damaged file is told in one sentence."""
    found = {}
    for path in sorted((folder / "added").glob("*.json")):
        try:
            added = msgspec.json.decode(path.read_bytes(), type=AddedJob)
            job = added.whole()
        except FileNotFoundError:  # it was taken out meanwhile
            continue
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            why = " ".join(str(error).split())[:300]
            raise UserError(f"{path}: is damaged: {why}; remove the file and add the job again") from error
        if path.stem != job.id:
            raise UserError(f"{path}: is damaged: it has job {job.id[:60]!r}; remove the file and add the job again")
        found[job.id] = (added, job)
    return found


def signature(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Differs whenever something was added or taken out."""
    seen = []
    for path in sorted((folder / "added").glob("*")):
        try:
            status = path.stat()
        except OSError:
            continue
        seen.append((path.name, status.st_mtime_ns, status.st_size))
    return tuple(seen)


def again_asked(folder: Path) -> bytes:
    try:
        return (folder / "added" / AGAIN).read_bytes()
    except OSError:
        return b""


# ── the card of a run ───────────────────────────────────────────────────────────────────────────────────────


def leave_card(folder: Path, files: Sequence[Path], nodes: Sequence[Node], settings: Sequence[str]) -> None:
    """Without it jobs are checked only when the run takes them in, so a failure is no reason not to run."""
    card = RunCard([str(file.resolve()) for file in files], list(nodes), list(settings), os.getpid())
    try:
        _write(folder / "run.json", msgspec.json.encode(card))
    except UserError:
        return


def card_of(folder: Path) -> RunCard | None:
    try:
        return msgspec.json.decode((folder / "run.json").read_bytes(), type=RunCard)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _place(folder: Path) -> Path:
    place = folder / "added"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(f"{place}: cannot be written: {error.strerror}") from error
    return place


def _write(path: Path, content: bytes) -> None:
    part = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as part:
            part.write(content)
        Path(part.name).replace(path)
    except OSError as error:
        if part is not None:
            Path(part.name).unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
