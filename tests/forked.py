"""`headway ...` in a child of this process: the command as it is, without a second for imports each time.

`test_compare.py::test_the_installed_command` calls the installed program; here the words and the exit code count.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired


def headway(*words: str, folder: Path | None = None, seconds: float = 200) -> CompletedProcess[str]:
    """As `subprocess.run` with text: the exit code, and what was said."""
    from headway.cli.app import COMMANDS, app_of

    app_of(COMMANDS)  # imports every command, in this process, once
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        with warnings.catch_warnings(action="ignore"):  # a thread of another test, which the child does not have
            child = os.fork()
        if child == 0:
            _be_headway(words, folder, out.fileno(), error.fileno())
        code = _ended(child, seconds, words)
        said = [_text(file) for file in (out, error)]
    return CompletedProcess(words, code, *said)


def call(capsys, *words: object) -> tuple[int, str, str]:
    """The same in this process, where a test changes what the command finds: exit code, output, errors."""
    from headway.cli import main

    sys.argv = ["headway", *map(str, words)]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    return code, *capsys.readouterr()


def _be_headway(words: tuple[str, ...], folder: Path | None, out: int, error: int) -> None:
    code = 1
    try:
        os.setsid()
        signal.alarm(0)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(out, 1)
        os.dup2(error, 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        if folder is not None:
            os.chdir(folder)
        sys.argv = ["headway", *words]
        from headway.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(child: int, seconds: float, words: tuple[str, ...]) -> int:
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutExpired(words, seconds)
        time.sleep(0.01)


def _text(file) -> str:
    file.seek(0)
    return file.read().decode()
