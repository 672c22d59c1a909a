"""A book whose learning survives a restart: what finished jobs have taught is kept in a file beside the log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, read_beliefs, write_beliefs
from headway.beliefs.folding import Folding
from headway.core.errors import UserError
from headway.core.snapshot import Snapshot
from headway.estimates.progress import ProgressBook

Tell = Callable[[str], None]
EVERY = 60.0
"""Seconds between two writes, by the clock of the machine."""


def kept_beliefs(log: Path) -> Path:
    """Where the run that writes this log keeps what it learns."""
    return log.with_name(f"{log.name}.beliefs")


@dataclass(slots=True)
class BeliefsKeeper:
    """Writes the newest history, at most once in a while and at the end. A write that fails is tried again; nothing
    ends by it.
    """

    path: Path
    began_with: LearnedBeliefs = NO_BELIEFS
    clock: Callable[[], float] = time.monotonic
    _newest: LearnedBeliefs | None = None
    """What is not written yet."""
    _seen: object = None
    _next: float = 0.0

    def keep(self, book: ProgressBook, now: float) -> None:
        if book.history is not self._seen:
            self._seen, self._newest = book.history, replace(self.began_with, history=book.history, until=now)
        if self.clock() >= self._next:
            self.write()

    def write(self) -> None:
        """Now: when the run ends, nothing that it learned may wait for the next write."""
        if self._newest is None:
            return
        self._next = self.clock() + EVERY
        try:
            write_beliefs(self.path, self._newest, private=True)
        except UserError:
            return
        self._newest = None


@dataclass(frozen=True, slots=True)
class KeptBook:
    """Folds and tells as the book inside does."""

    book: ProgressBook
    keeper: BeliefsKeeper

    def fold(self, snapshot: Snapshot) -> KeptBook:
        book = self.book.fold(snapshot)
        if book.history is not self.keeper.began_with.history:
            self.keeper.keep(book, snapshot.now)
        return KeptBook(book, self.keeper)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        return self.book.annotate(snapshot)


def go_on_learning(
    kept: Path, given: LearnedBeliefs, past: Iterable[Snapshot], *, new_clock: bool = False, tell: Tell = lambda _: None
) -> KeptBook:
    """The book of a run that goes on: what was kept, and what has finished since.

    What was kept counts only if that run began with the same beliefs. Otherwise all of `past` is folded into the given.
    With a new clock, which begins at 0 because the log is gone, the times of what was kept say nothing.
    """
    found = _found(kept, given, tell)
    since = -math.inf if found is None else 0.0 if new_clock else found.until
    folding = Folding((found or given).history)
    folding.run(past, since)
    return KeptBook(ProgressBook(history=folding.history, since=folding.until), BeliefsKeeper(kept, given))


def _found(kept: Path, given: LearnedBeliefs, tell: Tell) -> LearnedBeliefs | None:
    """What was kept, if the run goes on with it. Else the file is set aside: the next write would overwrite it."""
    if not kept.exists():
        return None
    try:
        found = read_beliefs(kept)
        if found.made_of == given.made_of and found.until > 0:
            return found
        why = "that run began with other beliefs"
    except UserError as error:
        why = str(error)
    aside = kept.with_name(f"{kept.name}.old")
    with suppress(OSError):
        kept.replace(aside)
    tell(f"what was learned before is not used, and is in {aside} now: {why}")
    return None
