"""Knowing which processes are ours."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from pathlib import Path

from headway.lab import process


def spawn(tmp_path, *argv: str, mark: str = "none") -> process.Process:
    return process.spawn(argv, tmp_path / "log", {"PATH": "/bin:/usr/bin", process.MARK: mark})


def test_a_process_is_alive_until_it_ends(tmp_path):
    sleeper = spawn(tmp_path, "/bin/sleep", "60")
    assert process.is_alive(sleeper)
    process.end([sleeper], grace_seconds=0)
    assert not process.is_alive(sleeper)


def test_a_recycled_pid_is_a_stranger(tmp_path):
    sleeper = spawn(tmp_path, "/bin/sleep", "60")
    other = process.Process(sleeper.pid, sleeper.ticks - 1)
    assert not process.is_alive(other)
    process.end([other], grace_seconds=0)
    assert process.is_alive(sleeper), "a process with another start time was ended"
    process.end([sleeper], grace_seconds=0)


def test_one_that_ignores_being_asked_is_killed(tmp_path):
    stubborn = spawn(tmp_path, "/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    while "ready" not in (tmp_path / "log").read_text():
        time.sleep(0.01)
    process.end([stubborn], grace_seconds=0.3)
    assert not process.is_alive(stubborn)


def test_marked_processes_are_found_with_their_children_and_no_others(tmp_path):
    mark = f"/labs/{secrets.token_hex(4)}"
    ours = spawn(tmp_path, "/bin/sh", "-c", "sleep 60 & wait", mark=mark)
    other = spawn(tmp_path, "/bin/sleep", "60", mark=f"{mark}-2")
    deadline = time.monotonic() + 60
    while len(found := process.marked(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ours in found
    assert other not in found
    assert len(found) == 2
    process.end([*found, other], grace_seconds=0)
    assert process.marked(mark) == []


def test_output_goes_to_the_log(tmp_path):
    done = spawn(tmp_path, "/bin/sh", "-c", "echo out; echo err >&2")
    assert process.wait_gone([done], 60)
    assert (tmp_path / "log").read_text().splitlines() == ["out", "err"]
    process.send(done, signal.SIGKILL)


def test_a_process_whose_threads_still_end_is_not_gone(tmp_path):
    """The first thread of a killed program is a zombie once it has ended; the others may hold the port for longer."""
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    one = process.spawn([sys.executable, "-c", program], tmp_path / "log", dict(os.environ))
    try:
        _until(lambda: Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        assert process.is_alive(one)
        assert not process.wait_gone([one], 0.1)
    finally:
        process.end([one], grace_seconds=0)
    assert not process.is_alive(one)


def _until(is_so, seconds=20):
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.02)
