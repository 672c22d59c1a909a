"""Bars on the terminal while virtual time runs: on stderr, and only where somebody is looking."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bars:
    """One bar per run, the finished ones folded into a total."""

    def __init__(self, names: Sequence[str], *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._shown = console.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not self._shown,
        )  # fmt: skip
        self._ids = [self._progress.add_task(name, total=1.0, start=False, visible=number == 0)
                     for number, name in enumerate(names)]  # fmt: skip
        self._started: set[int] = set()

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def set(self, number: int, share: float) -> None:
        if not self._shown:
            return
        if number not in self._started:
            self._started.add(number)
            self._progress.start_task(self._ids[number])
        self._progress.update(self._ids[number], completed=share, visible=True)

    def done(self, number: int) -> None:
        if self._shown:
            self._progress.update(self._ids[number], completed=1.0, visible=False)
