"""How often a job may start again: what the administrator says, what the job's user says, and the losses so far. Pure.

Example: a cluster fails a job that is lost more than 3 times in an hour without progress. A job on cheap nodes that are
taken away often says `restarts: {losses: 20}`; it may, because the administrator allows up to 100.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """What a job's user says about its restarts; None: as the cluster has it."""

    losses: int | None = None
    window: float | None = None
    """Seconds."""
    refusals: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimits:
    """How often a job is started again. Ten evictions in a week do not fail a job; four in an hour at one step do."""

    losses: int = 3
    """More losses than this within the window, without a step of progress in between, fail the job."""
    window_seconds: float = 3600.0
    refusals: int = 10
    """More refused starts than this in a row fail the job."""
    max: int = 100
    """A job may ask for at most so many losses and refusals. The cluster's own limits may be higher."""
    min_window: float = 60.0
    """A job may ask for a window of at least so many seconds: in a short one hardly any loss counts."""

    def of(self, asked: Restarts) -> RestartLimits:
        """The limits of one job. What it asks for beyond what is allowed is cut to that."""
        losses = self.losses if asked.losses is None else min(asked.losses, max(self.max, self.losses))
        refusals = self.refusals if asked.refusals is None else min(asked.refusals, max(self.max, self.refusals))
        least = min(self.min_window, self.window_seconds)
        window = self.window_seconds if asked.window is None else max(asked.window, least)
        return replace(self, losses=losses, refusals=refusals, window_seconds=window)

    def refusal(self, asked: Restarts) -> str:
        """The field that asks for more than is allowed, and why, in a sentence; empty if none does."""
        held = self.of(asked)
        for name, value, bound in (("losses", asked.losses, held.losses), ("refusals", asked.refusals, held.refusals)):
            if value is not None and value > bound:
                return f"{name}: must be at most {bound}, not {value}"
        if asked.window is not None and asked.window < held.window_seconds:
            return f"window: must be at least {held.window_seconds:g} seconds, not {asked.window:g}"
        return ""


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses since the job last made progress."""

    times: tuple[float, ...] = ()
    step: int = -1
    """The furthest step at any loss so far."""

    def another(self, now: float, step: int, limits: RestartLimits) -> Losses:
        """The losses with one more, at this time and step. Progress or time removes the earlier ones."""
        if step > self.step:
            return Losses((now,), step)
        recent = tuple(at for at in self.times if now - limits.window_seconds < at <= now)
        return Losses((*recent[max(0, len(recent) - limits.losses) :], now), self.step)

    def too_many(self, limits: RestartLimits) -> bool:
        return len(self.times) > limits.losses

    def sentence(self, why: str) -> str:
        return f"lost {len(self.times)} times without progress, last: {why}"


def may_retry(on: Sequence[int | str], not_on: Sequence[int | str], code: int | None, output: str = "") -> bool:
    """Whether a job starts again after this error. Rules are exit codes, and texts of its output.

    Example: a job with `on: [75, CUDA out of memory]` starts again after exit code 75, and after exit code 1 where one
    of the last lines says that CUDA was out of memory.
    """

    def has(rules: Sequence[int | str]) -> bool:
        return any(rule == code if isinstance(rule, int) else rule in output for rule in rules)

    return (not on or has(on)) and not has(not_on)


def retry_note(number: int, most: int) -> str:
    """The end of the note on a job that failed and is tried again. The log keeps it."""
    return f"retry {number} of {most}"


def retry_told(note: str) -> int:
    """Which retry such a note told; 0 if it is another note."""
    found = _RETRY.search(note)
    return int(found[1]) if found else 0


_RETRY = re.compile(r"; retry ([1-9][0-9]{0,8}) of [0-9]+$")
