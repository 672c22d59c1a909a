"""Whether to change anything: the found settings against the present ones, on windows that the search did not see.

A change is proposed only where the paired gain is significant (one-sided t test at 95 % on the logarithms of the
ratios) and worth at least half a percent, and where neither the tail nor the fairness figure becomes worse by more
than one percent. Otherwise: keep what you have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.learn.tuning.runs import FAIRNESS, RunFigures, Setting
from headway.learn.tuning.search import SLACK, SearchSettings, as_setting, ratios

LEAST_GAIN = 0.005
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Judged:
    """`gain`: share by which the mean completion time falls on held-out windows, with its 95 % interval."""

    change: bool
    why: str
    """Why nothing is changed; empty if something is."""
    settings: Setting
    gain: float
    interval: tuple[float, float]
    tail: float
    """Share by which the tail grows."""
    fairness: float
    """Share by which the fairness figure becomes worse."""
    windows: int

    def as_json(self) -> dict[str, Any]:
        return {
            "change": self.change, "why": self.why, "settings": dict(self.settings), "gain": self.gain,
            "interval": list(self.interval), "tail": self.tail, "fairness": self.fairness, "windows": self.windows,
        }  # fmt: skip


def judge(
    settings: Setting, figures: Sequence[RunFigures], base: Sequence[RunFigures], given: SearchSettings
) -> Judged:
    from scipy.stats import t  # it takes a while to load

    saved = -ratios(figures, base, "mean")
    count, middle = len(saved), float(saved.mean())
    error = float(saved.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    far = float(t.ppf(1 - (1 - LEVEL) / 2, count - 1)) * error if count > 1 else math.inf
    sure = middle - float(t.ppf(LEVEL, count - 1)) * error > 0 if count > 1 else False
    tail, fairness = (
        float(np.expm1(ratios(figures, base, name).mean())) for name in (given.tail, FAIRNESS[given.fairness])
    )
    why = ""
    if settings == as_setting(given.present):
        why = "nothing better was found"
    elif sum(one.unfinished for one in figures) > sum(one.unfinished for one in base):
        why = "jobs are left unfinished"
    elif not sure:
        why = "the gain is within what chance gives"
    elif middle < LEAST_GAIN:
        why = f"the gain is below {LEAST_GAIN:.1%}"
    elif tail > SLACK:
        why = "the slowest jobs would take longer"
    elif fairness > SLACK:
        why = "it would be less fair"
    interval = (-math.expm1(-(middle - far)), -math.expm1(-(middle + far)))
    return Judged(not why, why, settings, -math.expm1(-middle), interval, tail, fairness, count)
