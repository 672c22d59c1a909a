"""What a start of `headway schedule` takes over from the log of an earlier run."""

from __future__ import annotations

import time
from pathlib import Path

from headway.cli.screen.say import say
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.record.lines import Head, JobLine
from headway.record.log import LogError, read
from headway.record.reading import keep_good
from headway.record.rotation import before


def earlier(log: Path | None) -> tuple[float, dict[JobId, int]]:
    """The start time and the job numbers of an earlier run with the same log, which goes on.

    Of a log in several files the last is enough: it begins with every job that was not over.
    Of a damaged log the good part is used, and a sentence says up to where it is good.
    """
    there = [file for file in (() if log is None else (log, before(log))) if file.is_file() and file.stat().st_size]
    if not there:
        return time.time(), {}
    try:
        return _told(there[0])
    except LogError:
        say(keep_good(there[0]), error=True)
        return _told(there[0])


def _told(log: Path) -> tuple[float, dict[JobId, int]]:
    began, serials = 0.0, {}
    for line in read(log):
        if isinstance(line, Head) and line.cluster != "kube":
            raise UserError(f"--log {log}: is the log of a {line.cluster} run, not of schedule; give another file")
        if isinstance(line, Head):
            began = began or line.began
        elif isinstance(line, JobLine):
            serials[JobId(line.job["id"])] = line.serial
    return began or time.time(), serials
