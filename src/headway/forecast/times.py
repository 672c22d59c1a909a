"""What a forecast says: when jobs start and end. It loads nothing of virtual time, so that any command can show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.core.job import JobId


class Range(NamedTuple):
    """Seconds on the cluster's clock. Four outcomes of five are between `low` and `high`."""

    low: float
    mid: float
    high: float
    """Infinite where the job may never get so far, as things are."""


class Eta(NamedTuple):
    """When a job starts and is done."""

    starts: Range | None
    """None where it runs already."""
    done: Range


@dataclass(frozen=True, slots=True)
class Forecast:
    now: float
    """The moment from which on it was foreseen."""
    jobs: Mapping[JobId, Eta] = field(default_factory=dict)
    all_done: Range | None = None
    """When the last of them is done."""
    draws: int = 0
    """Of how many futures it was made. A single one gives no range."""
