"""The settings of `headway` that may be turned, each with its range. An offset of 0 is exactly the default.

An offset is a number from -1 (the least value) to 1 (the largest). Times and factors go by ratios, shares evenly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from headway.core.errors import UserError
from headway.core.snapshot import Snapshot
from headway.policies.headway import Headway

DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Headway)}


@dataclass(frozen=True, slots=True)
class Knob:
    """`min` and `max` are the ends of its range; `acts` says where it matters at all."""

    name: str
    min: float
    max: float
    by_ratio: bool = False
    acts: str = ""
    """`sizes`: where sizes are chosen. `deadlines`: where jobs have deadlines. Empty: everywhere."""

    @property
    def default(self) -> float:
        return float(DEFAULTS[self.name])

    def value(self, offset: float) -> float:
        """The setting at an offset from -1 to 1. Rounded, so that people can read and repeat it."""
        if not offset:
            return self.default
        end, share = (self.max, offset) if offset > 0 else (self.min, -offset)
        if self.by_ratio:
            return _rounded(self.default * (end / self.default) ** share)
        return _rounded(self.default + share * (end - self.default))

    def offset(self, value: float) -> float:
        """The offset of a value, cut to the range."""
        end = self.max if value > self.default else self.min
        if self.default in (end, value):
            return 0.0
        if self.by_ratio:
            share = math.log(max(value, 1e-9) / self.default) / math.log(end / self.default)
        else:
            share = (value - self.default) / (end - self.default)
        return min(1.0, max(0.0, share)) * (1 if value > self.default else -1)


KNOBS = (
    Knob("trial", 30.0, 600.0, by_ratio=True),
    Knob("trial_share", 0.1, 0.9),
    Knob("width_weight", 0.0, 1.5),
    Knob("margin", 0.0, 1.0),
    Knob("restart", 5.0, 300.0, by_ratio=True),
    Knob("cool_down", 10.0, 600.0, by_ratio=True),
    Knob("patience", 1_800.0, 86_400.0, by_ratio=True),
    Knob("tail_share", 0.0, 0.4),
    Knob("tail_near", 0.3, 0.95),
    Knob("tail_far", 1.2, 4.0, by_ratio=True),
    Knob("tail_stay", 0.0, 0.3),
    Knob("tail_claim", 0.25, 4.0, by_ratio=True),
    Knob("favour", 0.0, 1.0, acts="sizes"),
    Knob("deadline_share", 0.0, 0.6, acts="deadlines"),
    Knob("deadline_guard", 0.1, 2.0, acts="deadlines"),
)
"""In the order of the action's numbers."""
BY_NAME: Mapping[str, Knob] = {knob.name: knob for knob in KNOBS}


def knob_named(name: str) -> Knob:
    if name not in BY_NAME:
        raise UserError(f"setting {name}: there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def settings_at(offsets: Sequence[float], knobs: Sequence[Knob] = KNOBS) -> dict[str, float]:
    """The settings that differ from the default ones."""
    values = {knob.name: knob.value(float(offset)) for knob, offset in zip(knobs, offsets, strict=True)}
    return {name: value for name, value in values.items() if value != BY_NAME[name].default}


def headway_at(offsets: Sequence[float]) -> Headway:
    settings: dict[str, Any] = dict(settings_at(offsets))
    return Headway(**settings)


def acting(snapshot: Snapshot, knobs: Sequence[Knob] = KNOBS) -> list[bool]:
    """Which of them matter for the jobs of this snapshot."""
    jobs = snapshot.jobs
    where = {"": True, "sizes": jobs.any_elastic, "deadlines": bool((jobs.deadline < math.inf).any())}
    return [where[knob.acts] for knob in knobs]


def _rounded(value: float) -> float:
    """To three digits."""
    return float(f"{value:.3g}")
