"""Shows the progress of a build: a bar with an estimate on a terminal, a line every 15 s elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 15.0
LINK_SECONDS = 8.0
"""Linking follows the last package and prints nothing; the estimate includes it."""


class BuildProgress:
    """Progress over several programs, each with a known number of packages to compile."""

    def __init__(self, *, total: int) -> None:
        self._total = total
        self._number = 0
        self._name = ""
        self._packages = 0
        self._done = 0
        self._began = self._told = time.monotonic()
        console = Console(stderr=True)
        self._bar = _bar(console) if console.is_terminal else None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, name: str, packages: int) -> None:
        self._number += 1
        self._name, self._packages, self._done = name, packages, 0
        self._began = self._told = time.monotonic()
        if self._bar is not None:
            self._task = self._bar.add_task(name, total=packages or None, left="")
        self._say(f"building {name} ({self._number} of {self._total}): {packages} packages to compile")

    def advance(self) -> None:
        self._done += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, left=self._left_text(time.monotonic()))

    def tick(self, now: float) -> None:
        if now - self._told >= LINE_EVERY_SECONDS:
            self._told = now
            self._say(
                f"building {self._name}: {self._done} of {self._packages} packages,"
                f" {now - self._began:.0f} s so far, {self._left_text(now)}"
            )

    def end(self) -> None:
        seconds = time.monotonic() - self._began
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._packages, left="done")
        self._say(f"built {self._name} in {seconds:.0f} s")

    def _left_text(self, now: float) -> str:
        if self._done >= self._packages:
            return "linking"
        if self._done < 20:
            return "no estimate yet"
        left = (now - self._began) * (self._packages - self._done) / self._done + LINK_SECONDS
        return f"about {left:.0f} s left"

    def _say(self, sentence: str) -> None:
        if self._bar is None:
            print(sentence, file=sys.stderr, flush=True)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("building {task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} packages"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
    )
