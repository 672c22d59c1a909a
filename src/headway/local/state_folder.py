"""The folder in which `headway run` keeps a jobs file's log, output and checkpoints.

Nothing in it is ever removed by a run. What a run does not go on with is moved to `aside/TIME`, and only if the log
names it. `headway clean` removes what was set aside.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from headway.beliefs.whole_file import write_whole
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.local.added import added_jobs
from headway.record.env_marks import KEY_BYTES
from headway.record.lines import Head, JobLine
from headway.record.log import LogError, read
from headway.record.logfile import private
from headway.record.reading import keep_good
from headway.record.resume import Left, left_behind
from headway.record.rotation import before

PARTS = ("checkpoints", "output")
LEAST_ROOM_BYTES = 8192
"""With less, a disk counts as full: a status of a few jobs has no room beside the one before."""
LOOKED_AT_SECONDS = 0.2
"""Who only asks whether a run goes on holds the lock for a moment."""
MARK = "set-aside-by-headway"
"""A file in every folder that was set aside. It is written last: what has none is not whole."""


def home_of_user() -> Path:
    """Where Headway keeps what is a user's own and outlives a session."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()) / "headway"


def folder_of(file: Path, state: Path | None = None) -> Path:
    """Beside the jobs file, so that it is the same from wherever the file is run."""
    return state.resolve() if state is not None else file.resolve().parent / ".headway" / file.stem


def lock(folder: Path) -> IO[bytes]:
    """Locks the folder: two runs in one folder would end each other's processes."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = open(folder / "lock", "wb", opener=private)  # noqa: SIM115  the caller closes it
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}; name another folder with --state") from error
    give_up = time.monotonic() + LOOKED_AT_SECONDS
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() < give_up:
                time.sleep(0.01)
                continue
            held.close()
            raise UserError(f"{folder}: another headway run uses this folder; give another --state") from error
        return held


def disk_is_full(folder: Path) -> bool:
    """Whether nothing more can be written there."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    blocks = room.f_bfree if os.geteuid() == 0 else room.f_bavail
    return blocks * room.f_frsize < LEAST_ROOM_BYTES


def is_locked(folder: Path) -> bool:
    """Whether a Headway works on this folder now."""
    try:
        with (folder / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def env_key(folder: Path) -> bytes:
    """The key of the marks that the log has in place of env values. Only its owner may read it; it is made once."""
    path = folder / "env-key"
    try:
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
    except OSError:
        pass
    key = os.urandom(KEY_BYTES)
    try:
        write_whole(path, key, private=True)
    except UserError as error:
        raise UserError(f"{error}; name another folder with --state") from error
    return key


def has_run(folder: Path) -> bool:
    return (folder / "run.log").exists()


def earlier(folder: Path, file: Path, *, fresh: bool) -> Left:
    """What an earlier run of the file left in the folder. `fresh` sets all of it aside."""
    log = folder / "run.log"
    if not log.exists():
        return Left()
    if fresh:
        jobs = _named_in(log)
        pieces = [folder / part / job for job in jobs for part in PARTS]
        added = [folder / "added" / f"{job}.json" for job in added_jobs(folder)]
        beside = [folder / name for name in ("run.png", "run.log.beliefs", "run.log.guard")]
        set_aside(folder, [*pieces, *added, *beside, log])  # the log is last: it tells what is ours
        return Left()
    try:
        left = left_behind(log)
    except LogError:
        print(keep_good(log), file=sys.stderr)
        left = left_behind(log)
    if not left.last and before(log).exists():  # it ended when the log had just been put aside
        left = left_behind(before(log))
    if left.head is not None and (left.head.cluster, left.head.source.split()[:1]) != ("local", [file.name]):
        raise UserError(
            f"{log}: is of another run ({left.head.source}); give another --state, or set that run aside with --fresh"
        )
    return left if left.last else Left()


def set_aside(folder: Path, pieces: Iterable[Path]) -> Path | None:
    """Moves those that exist to a new folder in `aside`. Returns it, or None if none exists."""
    there = [piece for piece in pieces if os.path.lexists(piece)]
    if not there:
        return None
    stamp = _stamp(folder)
    marks = {folder / "aside" / stamp}
    for piece in there:
        try:
            marks.add(_moved(piece, folder / "aside" / stamp / piece.relative_to(folder), stamp))
        except OSError as error:
            raise UserError(f"{piece}: cannot be set aside: {error.filename or ''}: {error.strerror}") from error
    for mark in marks:
        with contextlib.suppress(OSError):
            (mark / MARK).touch()
    return folder / "aside" / stamp


def _moved(piece: Path, target: Path, stamp: str) -> Path:
    """Moves it, and returns the folder of all that was moved with it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        piece.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        near = piece.parent / ".aside" / stamp  # the folder is a link to another file system
        near.mkdir(parents=True, exist_ok=True)
        piece.rename(near / piece.name)
        return near
    return next(above for above in target.parents if above.name == stamp)


def set_aside_before(folder: Path) -> list[Path]:
    """The folders that were set aside, oldest first."""
    places = [folder / "aside", *(folder / part / ".aside" for part in PARTS)]
    return [mark.parent for place in places for mark in sorted(place.glob(f"*/{MARK}"))]


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in _files_in(folder))


def pieces_of(aside: Path) -> list[str]:
    """What was set aside there: `checkpoints/bert`, `output/bert`, `run.log`."""
    parts = [aside / part for part in (*PARTS, "added")]
    names = [path.relative_to(aside) for part in parts for path in sorted(part.glob("*"))]
    others = [path.relative_to(aside) for path in sorted(aside.iterdir()) if path not in parts and path.name != MARK]
    return [str(name) for name in (*names, *others)]


def remove(aside: Path) -> int:
    """Removes a folder that was set aside; returns its bytes. Links are removed, not what they point to."""
    try:
        size = size_of(aside)
        shutil.rmtree(aside)
        if not any(aside.parent.iterdir()):
            aside.parent.rmdir()
    except OSError as error:
        raise UserError(f"{aside}: cannot be removed: {error.filename or ''}: {error.strerror}") from error
    return size


def newest_write(folder: Path, job: JobId) -> float | None:
    """When the job last wrote to its checkpoint folder, in seconds since 1970."""
    return max((path.lstat().st_mtime for path in _files_in(folder / "checkpoints" / job)), default=None)


def _files_in(folder: Path) -> Iterator[Path]:
    """Links are not followed."""
    return (Path(root) / name for root, _, names in os.walk(folder) for name in names)


def _named_in(log: Path) -> list[str]:
    """The jobs that a log names, as far as it can be read. A file that is no log is left alone."""
    jobs: dict[str, None] = {}
    ours = False
    try:
        for line in read(log):
            ours = ours or isinstance(line, Head)
            if isinstance(line, JobLine):
                jobs[str(line.job["id"])] = None
    except LogError:
        if not ours:
            raise
    return list(jobs)


def _stamp(folder: Path) -> str:
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    taken = sum(path.name.startswith(stamp) for path in (folder / "aside").glob("*"))
    return f"{stamp}-{taken + 1}" if taken else stamp
