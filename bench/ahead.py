"""Timing on a machine that others use, too: the lab and what is timed come before other programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.lab import Lab

BEFORE_OTHERS, LIKE_OTHERS = "-15", "0"


@contextmanager
def ahead(lab: Lab, *, wanted: bool) -> Iterator[None]:
    """This process, what it starts and the lab come before other sessions, where the kernel groups tasks by session."""
    pids = [os.getpid(), *(part.pid for part in lab.status().parts if part.pid)] if wanted else []
    try:
        for pid in pids:
            Path(f"/proc/{pid}/autogroup").write_text(BEFORE_OTHERS)
        yield
    finally:
        for pid in pids:
            Path(f"/proc/{pid}/autogroup").write_text(LIKE_OTHERS)
