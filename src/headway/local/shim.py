"""The parent process of one replica: it makes sure that no process of the replica is left behind.

It adopts every descendant that loses its parent. When the replica ends, it ends all descendants that are left. When
Headway dies, even by kill -9, it kills them all at once. Standard library only, so that it starts in milliseconds.

It reads what to run from its stdin: {"command": [...], "directory": ..., "env": {...}, "join": [...], ...}. Every user
may read the command line of a process, so nothing of that is there. Its stdout and stderr are those of the replica.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LEAVE_SECONDS = 2.0
"""Processes that a replica left behind get SIGTERM, and after this time SIGKILL."""


def main() -> None:
    spec = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    headway = spec["parent"]
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    shim = Shim(headway)
    signal.signal(signal.SIGTERM, shim.asked_to_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _gone(headway):
        _clear_away(spec)
        return
    shim.start(spec, prctl)
    code = shim.wait()
    if _gone(headway):
        _clear_away(spec)
    sys.exit(code)


class Shim:
    def __init__(self, headway: int) -> None:
        self.headway = headway
        self.child = 0
        self.stop_by: float | None = None
        self.grace = 10.0

    def start(self, spec: dict[str, Any], prctl: Any) -> None:
        self.grace = float(spec.get("grace", 10.0))
        try:
            self.child = os.fork()
            if self.child:
                return
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _become(spec)
        except (OSError, ValueError) as error:
            print(f"headway: cannot run {spec['command'][0]}: {error}", file=sys.stderr, flush=True)
            os._exit(127)

    def asked_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        """On SIGTERM: end the replica within its grace time, or at once if Headway itself is gone."""
        orphaned = _gone(self.headway)
        if self.stop_by is None or orphaned:
            self.stop_by = time.monotonic() + (0.0 if orphaned else self.grace)
        _signal_all(signal.SIGKILL if orphaned else signal.SIGTERM)

    def wait(self) -> int:
        """Wait until the replica and all its descendants have ended; return its exit code (128 + N for signal N)."""
        code: int | None = None
        left_at = 0.0
        while True:
            code, all_ended = self._reap(code)
            if all_ended:
                return 0 if code is None else code
            now = time.monotonic()
            if code is not None:
                if not left_at:
                    left_at = now
                    _signal_all(signal.SIGTERM)
                elif now > left_at + LEAVE_SECONDS:
                    _signal_all(signal.SIGKILL)
            elif self.stop_by is not None and now >= self.stop_by:
                _signal_all(signal.SIGKILL)
            time.sleep(0.05 if self.stop_by is not None or code is not None else 0.1)

    def _reap(self, code: int | None) -> tuple[int | None, bool]:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code, True
            if pid == 0:
                return code, False
            if pid == self.child:
                code = os.waitstatus_to_exitcode(status)
                code = 128 - code if code < 0 else code


def _gone(headway: int) -> bool:
    """Whether Headway has ended. If its main thread ends before the others, it is still our parent, but a zombie."""
    if os.getppid() != headway:
        return True
    try:
        return _stat(headway)[0] in (b"Z", b"X")
    except OSError:
        return True


def _clear_away(spec: dict[str, Any]) -> None:
    """Remove the replica's control group and, after the last shim, the run's: Headway can no longer do it."""
    for path in spec.get("join", []):
        group = os.path.dirname(path)  # noqa: PTH120
        for folder in (group, os.path.dirname(group)):  # noqa: PTH120
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106


def _become(spec: dict[str, Any]) -> None:
    os.setsid()
    for path in spec.get("join", []):
        with open(path, "w") as file:  # noqa: PTH123  importing pathlib takes too long here
            file.write("0")
    if spec.get("cores"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, spec["cores"])
    os.chdir(spec["directory"])
    os.execvpe(spec["command"][0], spec["command"], spec["env"])  # noqa: S606  the user's own program


def _signal_all(number: int) -> None:
    """Signal every descendant. Adopted processes are our children, so a walk down from here finds all."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                children.setdefault(int(_stat(int(name))[1]), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def parent_of(pid: int) -> int:
    """The parent of a process; 0 where the process is gone."""
    try:
        return int(_stat(pid)[1])
    except (OSError, ValueError):
        return 0


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name: state, parent, and more."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        text = file.read()
    return text[text.rindex(b")") + 2 :].split()


if __name__ == "__main__":
    main()
