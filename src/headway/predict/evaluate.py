"""How good predictions are: error of remaining time by the share of the job that is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from headway.core.node import FloatArray
from headway.predict import curve, shapes

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8)
WORST = 10.0
"""An error that is larger, or no answer at all, counts as this."""
MOST_SHAPES_PER_MODEL = 6

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Way:
    """A job that ended when a value reached its target."""

    model: str
    like: str
    """Runs with equal words here are repeats of the same run."""
    points: tuple[tuple[float, float], ...]
    """Seconds (or steps) and value; the last is where the target was reached."""
    target: float

    @property
    def length(self) -> float:
        return self.points[-1][0]


@dataclass(frozen=True, slots=True)
class Error:
    """Of several predictions at one share of the job."""

    count: int
    median: float
    p90: float
    none: int = 0
    """Jobs of which nothing could be said yet; they are not in the other numbers."""


def error_of(predicted: float | None, true: float) -> float:
    """|predicted / true - 1|, at most WORST."""
    if predicted is None or not math.isfinite(predicted) or true <= 0:
        return WORST
    return min(WORST, abs(predicted / true - 1.0))


def summary(errors: Sequence[float], none: int = 0) -> Error:
    if not errors:
        return Error(0, math.nan, math.nan, none)
    return Error(len(errors), float(np.median(errors)), float(np.quantile(errors, 0.9)), none)


def by_line(points: Points, target: float) -> float | None:
    """Plain extrapolation: a line from the first value to the newest, on to the target."""
    (first_at, first), (at, value) = points[0], points[-1]
    slope = (value - first) / (at - first_at) if at > first_at else 0.0
    left = (target - value) / slope if slope else math.inf
    return left if left >= 0 else math.inf


def by_curve(points: Points, target: float) -> float | None:
    """The family that forecasts best."""
    sign = 1.0 if curve.falling([value for _, value in points], target) else -1.0
    found = curve.fit([(at, sign * value) for at, value in points])
    return None if found is None else max(0.0, found.steps_to(sign * target) - points[-1][0])


def by_shapes(points: Points, target: float, library: FloatArray, known: tuple[float, float] | None = None,
              elapsed: float | None = None) -> float | None:  # fmt: skip
    """What is left after the time that has passed, which is more than the newest point's."""
    now = points[-1][0] if elapsed is None else elapsed
    found = shapes.length(points, target, library, known, now)
    return None if found is None else max(0.0, found.median - now)


def library_of(ways: Iterable[Way], without: str = "") -> FloatArray:
    """The shapes of finished jobs, a few of each model but the one left out, beside the plain ones."""
    by_model: dict[str, list[FloatArray]] = {}
    for way in ways:
        if way.model != without:
            shape = shapes.shape_of(way.points, way.target)
            if shape is not None:
                by_model.setdefault(way.model, []).append(shape)
    few = [
        shape
        for _, many in sorted(by_model.items())
        for shape in many[:: max(1, len(many) // MOST_SHAPES_PER_MODEL)][:MOST_SHAPES_PER_MODEL]
    ]
    return np.concatenate([shapes.plain_shapes(), np.stack(few)]) if few else shapes.plain_shapes()


def known_length(ways: Iterable[Way]) -> tuple[float, float] | None:
    """Median and spread of lengths; None where there is no job to learn from."""
    lengths = [math.log(way.length) for way in ways if way.length > 0]
    if not lengths:
        return None
    middle = median(lengths)
    away = 1.48 * median(abs(one - middle) for one in lengths) if len(lengths) > 2 else 0.3
    return math.exp(middle), max(0.05, away)
