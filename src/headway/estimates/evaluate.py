"""How good predictions are: the error of remaining time, by the share of the job that is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from headway.core.node import FloatArray
from headway.estimates.job.target import known_length, length_by_shape, plain_shapes, shape_of

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8)
WORST = 10.0
"""A larger error, or no answer, counts as this."""
MOST_SHAPES_PER_MODEL = 6

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Way:
    """A job that ended when a value reached its target."""

    model: str
    like: str
    """Runs with the same value here are repeats of the same run."""
    points: tuple[tuple[float, float], ...]
    """Seconds (or steps) and value; the last is where the target was reached."""
    target: float

    @property
    def length(self) -> float:
        return self.points[-1][0]


@dataclass(frozen=True, slots=True)
class Error:
    """The errors of several predictions at one share of the job."""

    count: int
    median: float
    p90: float
    none: int = 0
    """Jobs without a prediction yet; they are not in the other numbers."""


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
    """Linear extrapolation: from the first value through the newest to the target."""
    (first_at, first), (at, value) = points[0], points[-1]
    slope = (value - first) / (at - first_at) if at > first_at else 0.0
    left = (target - value) / slope if slope else math.inf
    return left if left >= 0 else math.inf


def by_shapes(
    points: Points, target: float, now: float, library: FloatArray, known: tuple[float, float] | None = None
) -> float | None:
    """Time left at `now`, which is later than the newest point."""
    found = length_by_shape(points, target, library, known, now)
    if found is None:
        return None if known is None or known[0] <= now else known[0] - now
    return max(0.0, found.median - now)


def library_of(ways: Iterable[Way], without: str = "") -> FloatArray:
    """Shapes of finished jobs, a few of each model except the one left out, and the plain shapes."""
    by_model: dict[str, list[FloatArray]] = {}
    for way in ways:
        if way.model != without:
            shape = shape_of(way.points, way.target)
            if shape is not None:
                by_model.setdefault(way.model, []).append(shape)
    few = [
        shape
        for _, many in sorted(by_model.items())
        for shape in many[:: max(1, len(many) // MOST_SHAPES_PER_MODEL)][:MOST_SHAPES_PER_MODEL]
    ]
    return np.concatenate([plain_shapes(), np.stack(few)]) if few else plain_shapes()


@dataclass(frozen=True, slots=True)
class Targets:
    """By share of the job done, in the order of SHARES: the error of remaining time for each of WAYS."""

    shares: tuple[tuple[Error, ...], ...]
    models: dict[str, tuple[float, ...]]
    """By model held out: our median error at each share; NaN where there was no prediction yet."""
    jobs: int


WAYS = ("headway", "like jobs", "linear")
"""Headway with the model held out; Headway where repeats of the same run are known; a line."""


def evaluate_targets(ways: Sequence[Way], per_model: int, told: Callable[[float], None] = lambda _: None) -> Targets:
    """Evaluates a few jobs of every model, evenly chosen."""
    by_model: dict[str, list[Way]] = {}
    for way in ways:
        by_model.setdefault(way.model, []).append(way)
    errors: list[list[list[float]]] = [[[] for _ in WAYS] for _ in SHARES]
    none = [[0 for _ in WAYS] for _ in SHARES]
    models: dict[str, list[list[float]]] = {}
    everything, jobs = library_of(ways), 0
    for done, (model, many) in enumerate(sorted(by_model.items())):
        library, own = library_of(ways, model), models.setdefault(model, [[] for _ in SHARES])
        for way in many[:: max(1, len(many) // per_model)][:per_model]:
            jobs += 1
            known = known_length([o.length for o in many if o.like == way.like and o is not way and o.length > 0])
            for place, share in enumerate(SHARES):
                for method, error in enumerate(_answers(way, share, library, everything, known)):
                    if error is None:
                        none[place][method] += 1
                        continue
                    errors[place][method].append(error)
                    if method == 0:
                        own[place].append(error)
        told((done + 1) / len(by_model))
    return Targets(
        tuple(tuple(summary(e, n) for e, n in zip(*pair, strict=True)) for pair in zip(errors, none, strict=True)),
        {model: tuple(median(e) if e else math.nan for e in own) for model, own in models.items()}, jobs,
    )  # fmt: skip


def _answers(
    way: Way, share: float, library: FloatArray, everything: FloatArray, known: tuple[float, float] | None
) -> tuple[float | None, ...]:
    """Errors by method; None where a method has no data yet."""
    now = share * way.length
    points = [point for point in way.points if point[0] <= now]
    true = way.length - now
    ours = line = None
    if len(points) >= 2:
        ours = error_of(by_shapes(points, way.target, now, library), true)
        straight = by_line(points, way.target)
        line = error_of(None if straight is None else max(0.0, straight - (now - points[-1][0])), true)
    like = None if known is None else error_of(by_shapes(points, way.target, now, everything, known), true)
    return ours, like, line
