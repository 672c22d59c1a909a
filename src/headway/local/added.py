"""Jobs that `headway add` put into the queue of a jobs file: one file each, in the folder `added` of its state folder.

A file is written whole or not at all, so a run may look at the folder at any time. Only its owner may read it: it has
the values of `env:`. `run.json` beside the folder tells which files and nodes the last run had, so that a job can be
checked where it is added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from headway.beliefs.whole_file import write_whole
from headway.core.errors import UserError
from headway.core.job import Job, JobId
from headway.core.node import Node
from headway.jobspec import NAME
from headway.record.line_order import wrong_job
from headway.record.lines import pack_job, unpack_job

OVER_JOBS = "over"
"""The folder beside `added` of jobs that are over or were taken out."""
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
    suspended: bool = False
    """It is not wanted for now."""

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
    page: str = ""
    """The address of its live page, if it has one."""
    pauses: dict[str, float] = {}
    """Those of its policy, by setting, in seconds."""


def put(folder: Path, jobs: Iterable[Job], file: Path) -> None:
    """Adds these jobs, or puts them in the place of added ones of their name."""
    for job in jobs:
        bare = replace(job, roles=tuple(replace(role, env=()) for role in job.roles))
        env = [list(role.env) for role in job.roles]
        added = AddedJob(str(file.resolve() if file.exists() else file), time.time_ns(), dict(pack_job(bare)), env)
        try:
            content = msgspec.json.encode(added)
        except UnicodeEncodeError as error:
            raise UserError(f"{file}: job {job.id!r}: has a text that no file can hold") from error
        write_whole(_place(folder) / f"{job.id}.json", content, private=True)


def ask_again(folder: Path) -> None:
    """Asks a run to run its failed jobs again."""
    write_whole(_place(folder) / AGAIN, str(time.time_ns()).encode(), private=True)


def take_out(folder: Path, job: JobId) -> bool:
    """Puts it beside those that are over. Whether there was one."""
    return _moved(folder, job, "added", OVER_JOBS)


def bring_back(folder: Path, job: JobId) -> bool:
    """Adds a job again that is over or was taken out. Whether there was one."""
    there = folder / OVER_JOBS / f"{job}.json"
    if not there.exists() or (_place(folder) / f"{job}.json").exists():
        return False
    again = msgspec.structs.replace(_read(there), asked=time.time_ns(), suspended=False)
    write_whole(there, msgspec.json.encode(again), private=True)
    return _moved(folder, job, OVER_JOBS, "added")


def changed(folder: Path, job: JobId, change: Callable[[AddedJob], AddedJob]) -> None:
    """Writes the added job anew, as `change` makes it."""
    path = folder / "added" / f"{job}.json"
    write_whole(path, msgspec.json.encode(change(_read(path))), private=True)


def added_job(folder: Path, job: JobId) -> Job | None:
    """As its file has it now; None if it is not there, or damaged."""
    try:
        return _read(folder / "added" / f"{job}.json").whole()
    except UserError:
        return None


def over_job(folder: Path, job: JobId) -> Job | None:
    """An added job that is over or was taken out, as it was; None if there is none, or it is wanted again."""
    try:
        return (
            None if (folder / "added" / f"{job}.json").exists() else _read(folder / OVER_JOBS / f"{job}.json").whole()
        )
    except UserError:
        return None


def known_names(folder: Path) -> set[str]:
    """All jobs that were ever added here, and those that have output here."""
    names = {path.stem for part in ("added", OVER_JOBS) for path in (folder / part).glob("*.json")}
    return names | {path.name for path in (folder / "output").glob("*")}


def _moved(folder: Path, job: JobId, source: str, target: str) -> bool:
    try:
        (folder / target).mkdir(mode=0o700, exist_ok=True)
        (folder / source / f"{job}.json").replace(folder / target / f"{job}.json")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UserError(f"{folder / target}: cannot be written: {error.strerror}") from error
    return True


def _read(path: Path) -> AddedJob:
    """Raises UserError where it is damaged."""
    try:
        added = msgspec.json.decode(path.read_bytes(), type=AddedJob)
        job = added.whole()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: is damaged: {why}; remove the file and add the job again") from error
    if path.stem != job.id:
        raise UserError(f"{path}: is damaged: it has job {job.id[:60]!r}; remove the file and add the job again")
    return added


def added_jobs(folder: Path, damaged: dict[JobId, str] | None = None) -> dict[JobId, tuple[AddedJob, Job]]:
    """By name. A damaged file is told in one sentence: in `damaged`, by name, or else by a UserError."""
    found = {}
    for path in sorted((folder / "added").glob("*.json")):
        try:
            added = _read(path)
        except UserError as error:
            if not path.exists():  # it was taken out meanwhile
                continue
            if damaged is None:
                raise
            damaged[JobId(path.stem)] = str(error)
            continue
        found[JobId(path.stem)] = (added, added.whole())
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


def leave_card(folder: Path, card: RunCard, *, needed: bool = False) -> None:
    """Without it jobs are checked only when the run takes them in, so a failure is no reason not to run. A queue is
    `needed` to leave one: `headway down` finds its process by it.
    """
    try:
        write_whole(folder / "run.json", msgspec.json.encode(card), private=True)
    except UserError:
        if needed:
            raise


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
