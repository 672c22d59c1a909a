"""How many steps a job takes to its target: by the shape of its metric's curve, and by like jobs.

A shape is a curve from the start of training to the target, over the share of the way. A job's points are compared with
every shape stretched to every total length, where the end of the curve is the target. Result: how well each length
explains the points. Without evidence a job is as likely to need more than its past time again as less. The lengths of
like jobs make this more precise: jobs of the same model that reached the same target.

Values are frozen: learning from a job that reached its target makes another. Only a few of the newest are remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, median

import numpy as np

from headway.core.job import Target
from headway.core.node import FloatArray

GRID = 65
LENGTHS = 64
MOST_POINTS = 16
LONGEST = 60.0
"""The whole job is at most this many times as long as its past."""
NOISE = 0.05
"""How far training deviates from any shape, as a share of the way from the first value to the target."""
TEMPER = 0.6
"""Errors of one job's points are correlated: n points count as n to this power."""
OVERDUE = 0.99
"""A job that has lasted longer than this share of its like jobs is not like them."""
LEAST_SHAPE_SPREAD = 0.5
"""Shapes alone were off by at least this much, on models held out."""
MOST_LENGTHS = 16
MOST_SHAPES = 6
THERE = 0.9
"""A job whose last report was this share of the way has reached its target: the last value may be missing."""
FEW = 0.12
"""Spread of a length that is known from a single job."""
LEAST_SPREAD = 0.05
LEAST_POINTS = 2

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """Jobs of one model that reached one target."""

    lengths: tuple[float, ...] = ()
    """Steps to the target, newest last."""
    shapes: tuple[FloatArray, ...] = ()

    def learn(self, points: Points, step: int, target: Target) -> Reached:
        """Learns from a job that finished at this step; nothing where it stopped for another reason."""
        if step <= 0 or len(points) < LEAST_POINTS or not _there(points, target):
            return self
        shape = shape_of(points, target.value)
        kept = self.shapes if shape is None else (*self.shapes, shape)[-MOST_SHAPES:]
        return Reached((*self.lengths, float(step))[-MOST_LENGTHS:], kept)

    def known(self) -> tuple[float, float] | None:
        """Median and spread of lengths; None where there is no job to learn from."""
        return known_length(self.lengths)

    def library(self) -> FloatArray:
        """Their shapes and the plain ones."""
        plain = plain_shapes()
        return np.concatenate([plain, np.stack(self.shapes)]) if self.shapes else plain


NOBODY = Reached()


def known_length(lengths: Sequence[float]) -> tuple[float, float] | None:
    """Median and spread of lengths; None where there is none."""
    if not lengths:
        return None
    logs = [math.log(one) for one in lengths]
    middle = median(logs)
    away = 1.48 * median(abs(one - middle) for one in logs)
    return math.exp(middle), max(LEAST_SPREAD, away, FEW / len(logs))


def steps_to(target: Target, points: Points, step: int, like: Reached = NOBODY) -> Length | None:
    """The whole way to the target in steps, for a job that is at this step and has not reached it."""
    known = like.known()
    found = None
    if len(points) >= LEAST_POINTS and points[-1][0] > 0:
        found = length_by_shape(points, target.value, like.library(), known, float(step))
    if found is None and known is not None and known[0] > step:
        wide = 1.28 * known[1]
        return Length(known[0], known[0] * math.exp(-wide), known[0] * math.exp(wide))
    return found


def _there(points: Points, target: Target) -> bool:
    first, last = points[0][1], points[-1][1]
    if target.reached(last):
        return True
    way = target.value - first
    return not target.reached(first) and way != 0 and (last - first) / way >= THERE


@dataclass(frozen=True, slots=True)
class Length:
    """Total length in the unit of the points."""

    median: float
    low: float
    """The 10th percentile; `high` is the 90th."""
    high: float

    @property
    def spread(self) -> float:
        return (math.log(max(self.high, 1e-12)) - math.log(max(self.low, 1e-12))) / 2.56


@cache
def plain_shapes() -> FloatArray:
    """Inverse, exponential, power and logarithm in a few strengths each; (shapes, GRID), from 0 to 1."""
    u = np.linspace(0.0, 1.0, GRID)
    raw = [1.0 - 1.0 / (1.0 + u / q) for q in (0.02, 0.05, 0.1, 0.25, 0.6, 2.0)]
    raw += [1.0 - np.exp(-u / q) for q in (0.05, 0.1, 0.2, 0.4, 1.0)]
    raw += [u**p for p in (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)]
    raw += [np.log1p(u / q) for q in (0.001, 0.01, 0.1)]
    stacked: FloatArray = np.stack([one / one[-1] for one in raw])
    return stacked


def shape_of(points: Points, target: float) -> FloatArray | None:
    """The shape of a finished job's way to its target; None where it has too few points."""
    if len(points) < 3:
        return None
    at, values = (np.array(column, float) for column in zip(*points, strict=True))
    way = target - values[0]
    if not np.isfinite(values).all() or at[-1] <= 0 or abs(way) < 1e-9 * max(1.0, abs(target)):
        return None
    u = np.linspace(0.0, 1.0, GRID)
    slope = (values[1] - values[0]) / (at[1] - at[0]) if at[1] > at[0] else 0.0
    begin = values[0] - slope * at[0]
    shape: FloatArray = np.interp(u, np.concatenate([[0.0], at / at[-1]]), np.concatenate([[begin], values]))
    return (shape - shape[0]) / (shape[-1] - shape[0]) if abs(shape[-1] - shape[0]) > 1e-12 else None


def length_by_shape(
    points: Points,
    target: float,
    shapes: FloatArray | None = None,
    known: tuple[float, float] | None = None,
    elapsed: float = 0.0,
) -> Length | None:
    """The length of the whole way to the target.

    `known`: median length of like jobs, and its spread as a share. `elapsed`: the target was not reached until then.
    """
    if not points:
        return None
    at, values = (np.array(column, float) for column in zip(*points, strict=True))
    if at[0] < 0 or at[-1] <= 0 or not np.isfinite(values).all():
        return None
    if len(at) > MOST_POINTS:
        chosen = np.unique(np.linspace(0, len(at) - 1, MOST_POINTS).astype(np.intp))
        at, values = at[chosen], values[chosen]
    now = max(elapsed, float(at[-1]))
    lengths = now * np.geomspace(1.0 + 1e-3, LONGEST, LENGTHS)
    likely = _likely(at, values - target, plain_shapes() if shapes is None else shapes, lengths)
    # At a random moment of its life, a job is as likely to have more than its past before it as less.
    weight = np.exp(likely - likely.max()).sum(axis=0) / lengths
    summed = np.cumsum(weight) / weight.sum()
    found = Length(*(float(np.interp(share, summed, lengths)) for share in (0.5, 0.1, 0.9)))
    return found if known is None else _with_known(found, known, now)


def _likely(at: FloatArray, away: FloatArray, shapes: FloatArray, lengths: FloatArray) -> FloatArray:
    """(shapes, lengths): log-likelihood of the distances to the target."""
    place = at[None, :] / lengths[:, None] * (GRID - 1)
    low = np.minimum(place.astype(np.intp), GRID - 2)
    part = place - low
    left = 1.0 - (shapes[:, low] * (1.0 - part) + shapes[:, low + 1] * part)
    away = away * np.sign(away[0]) / (float(np.abs(away).max()) or 1.0)
    ratio = np.maximum(0.0, (left * away).sum(axis=2) / np.maximum(1e-12, (left**2).sum(axis=2)))
    off = ratio[:, :, None] * left - away
    square = (off**2).mean(axis=2) + NOISE**2
    likely: FloatArray = -0.5 * len(at) ** TEMPER * np.log(square)
    return likely


def _with_known(found: Length, known: tuple[float, float], now: float) -> Length:
    """Combines with the lengths of like jobs, given that the job is not done yet; unless it is overdue by them."""
    middle, spread = math.log(known[0]), max(0.02, known[1])
    normal = NormalDist(middle, spread)
    done = normal.cdf(math.log(now))
    if done > OVERDUE:
        return found
    one, two = 1.0 / spread**2, 1.0 / max(LEAST_SHAPE_SPREAD, found.spread) ** 2
    log = (one * normal.inv_cdf(done + 0.5 * (1.0 - done)) + two * math.log(found.median)) / (one + two)
    wide = 1.28 / math.sqrt(one + two)
    return Length(max(now, math.exp(log)), max(now, math.exp(log - wide)), max(now, math.exp(log + wide)))
