"""When a job is over: the last lines of its output, and the commands that its user wants run then.

Example: `on_failure: [sh, -c, 'mail -s "$HEADWAY_JOB failed" me < $HEADWAY_LOG']`. A command runs in the job's folder
and in a session of its own. What it prints is in `output/JOB/on_failure.log`. It is ended after ten minutes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from headway.core.job import Job
from headway.core.states import State
from headway.local.replica import resolve

LONGEST_SECONDS = 600.0
LAST_SECONDS = 5.0
"""How long a run waits at its end for commands of its users."""
TAIL_BYTES = 16_384
"""Read from the end of an output; lines before them are not shown."""


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of an output that are not empty."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def outputs_of(folder: Path, job: Job) -> list[Path]:
    """The outputs of its replicas in the state folder, the newest last."""
    found = []
    for role in job.roles:
        for path in (folder / "output" / job.id).glob(f"{role.name}-*.log"):
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found)]


class CommandsAtEnd:
    """Starts them and looks after them. One that cannot be started is told in its log; no job waits for one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[tuple[float, subprocess.Popen[bytes]]] = []

    def run(self, job: Job, state: State, code: int | None) -> None:
        if job.on_end:
            self._start(job, state, code, "on_end", job.on_end)
        if job.on_failure and state is State.FAILED:
            self._start(job, state, code, "on_failure", job.on_failure)

    def _start(self, job: Job, state: State, code: int | None, name: str, command: Sequence[str]) -> None:
        logs = outputs_of(self._folder, job)
        told = {
            "HEADWAY_JOB": job.id, "HEADWAY_PHASE": state.name.lower(),
            "HEADWAY_EXIT_CODE": "" if code is None else str(code), "HEADWAY_LOG": str(logs[-1]) if logs else "",
        }  # fmt: skip
        own = {key: value for role in job.roles for key, value in role.env}
        path = self._folder / "output" / job.id / f"{name}.log"
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as output:
                try:
                    process = subprocess.Popen(
                        resolve(tuple(command)), cwd=job.directory or None, env={**os.environ, **own, **told},
                        stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                    )  # fmt: skip
                except OSError as error:
                    output.write(f"{command[0]}: cannot be started: {error.strerror}\n".encode())
                else:
                    self._running.append((time.monotonic() + LONGEST_SECONDS, process))

    def look(self) -> None:
        """Forgets those that have ended, and ends those that take too long."""
        for until, process in self._running:
            if process.poll() is None and time.monotonic() > until:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        self._running = [one for one in self._running if one[1].poll() is None]

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Waits a while for those that run. What takes longer goes on without Headway."""
        give_up = time.monotonic() + seconds
        for _, process in self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up - time.monotonic()))
