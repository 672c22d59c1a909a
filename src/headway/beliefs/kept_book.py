"""A book whose learning survives a restart: what jobs have taught is kept in two files beside the log. One has what
finished jobs taught all others, the other what each unfinished one has shown of itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, read_beliefs, write_beliefs
from headway.beliefs.folding import Folding
from headway.beliefs.speeds import TrackFields, of_these_jobs, read_speeds, write_speeds
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.snapshot import Snapshot
from headway.estimates.job.track import Track
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
    speeds: Path
    began_with: LearnedBeliefs = NO_BELIEFS
    clock: Callable[[], float] = time.monotonic
    _newest: LearnedBeliefs | None = None
    """What is not written yet."""
    _seen: object = None
    _tracks: tuple[Mapping[JobId, Track], Snapshot] | None = None
    """What unfinished jobs have shown, and is not written yet."""
    _next: float = 0.0

    def keep(self, before: ProgressBook, book: ProgressBook, snapshot: Snapshot) -> None:
        if book.history is not self._seen and book.history is not self.began_with.history:
            self._seen, self._newest = book.history, replace(self.began_with, history=book.history, until=snapshot.now)
        if book.tracks is not before.tracks:
            self._tracks = book.tracks, snapshot
        if self.clock() >= self._next:
            self.write()

    def write(self) -> None:
        """Now: when the run ends, nothing that it learned may wait for the next write."""
        if self._newest is None and self._tracks is None:
            return
        self._next = self.clock() + EVERY
        with suppress(UserError):
            if self._newest is not None:
                write_beliefs(self.path, self._newest, private=True)
                self._newest = None
            if self._tracks is not None:
                write_speeds(self.speeds, *self._tracks)
                self._tracks = None


@dataclass(frozen=True, slots=True)
class KeptBook:
    """Folds and tells as the book inside does."""

    book: ProgressBook
    keeper: BeliefsKeeper
    shown: Mapping[str, TrackFields] = field(default_factory=dict)
    """What jobs had shown in the run before. It counts for those that are in the first snapshot."""

    def fold(self, snapshot: Snapshot) -> KeptBook:
        before = self.book
        if self.shown:
            before = replace(before, tracks={**of_these_jobs(self.shown, snapshot), **before.tracks})
        book = before.fold(snapshot)
        self.keeper.keep(before, book, snapshot)
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
    book, speeds = ProgressBook(history=folding.history, since=folding.until), kept.with_suffix(".speeds")
    return KeptBook(book, BeliefsKeeper(kept, speeds, given), {} if new_clock else read_speeds(speeds))


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
