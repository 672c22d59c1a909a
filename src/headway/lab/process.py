"""Starts and ends the processes of the lab, and tells them apart from all others.

A process is a pid together with its start time, so a reused pid is never taken for ours. Each also has a mark in its
environment, by which `down` finds processes that a crash left unrecorded.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

MARK = "HEADWAY_LAB"


class Process(msgspec.Struct, frozen=True):
    pid: int
    ticks: int
    """Start time in clock ticks since boot, as in /proc/PID/stat."""


def spawn(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Starts a program in its own session, so that Ctrl-C in the user's terminal does not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, _ticks(pid) or 0)


def is_alive(process: Process) -> bool:
    reap(process)
    return process.ticks != 0 and _ticks(process.pid) == process.ticks


def reap(process: Process) -> None:
    """Collects the exit status if the process is our child. It may not be: labs outlive the process that made them."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def current(pid: int) -> Process | None:
    ticks = _ticks(pid)
    return Process(pid, ticks) if ticks else None


def send(process: Process, number: signal.Signals) -> None:
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def end(processes: Iterable[Process], *, grace_seconds: float) -> None:
    """Sends SIGTERM, waits, then sends SIGKILL. Returns when all are gone."""
    group = list(processes)
    if grace_seconds > 0:
        for process in group:
            send(process, signal.SIGTERM)
        wait_gone(group, grace_seconds)
    for process in group:
        send(process, signal.SIGKILL)
    wait_gone(group, 10)


def wait_gone(processes: Iterable[Process], timeout_seconds: float) -> bool:
    left = list(processes)
    deadline = time.monotonic() + timeout_seconds
    while left := [process for process in left if is_alive(process)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def marked(mark: str) -> list[Process]:
    """Returns every live process with the mark of this lab in its environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # it is gone, or belongs to another user
            continue
        if wanted in environment.split(b"\0") and (process := current(int(entry.name))):
            found.append(process)
    return found


def memory_bytes(process: Process) -> int:
    """Resident memory, 0 when the process is gone."""
    try:
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _ticks(pid: int) -> int | None:
    """The start time of a live process. A zombie is not alive, unless other threads of it still end and hold files."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    state, threads, ticks = fields[0], int(fields[17]), int(fields[19])
    return None if state == "X" or (state == "Z" and threads <= 1) else ticks
