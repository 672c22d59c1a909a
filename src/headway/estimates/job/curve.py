"""Loss against steps: four families of curves. The family that best predicts the last third is taken.

Each family is floor + drop · shape(steps) with a drop that is not negative and one number inside the shape, which is
searched on a grid, while floor and drop are solved for. So a fit never fails to converge and always costs the same.

    inverse      1 / (1 + u/q)              power   (1 + u/u1)^-q
    exponential  exp(-u/q)                  log     -log(1 + u/q)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.node import FloatArray

LEAST_POINTS = 4
MOST_POINTS = 48
_GRID: FloatArray = np.geomspace(0.003, 10.0, 32)
_POWERS: FloatArray = np.linspace(0.05, 3.0, 32)

Shape = Callable[[FloatArray, FloatArray, float], FloatArray]


def _inverse(u: FloatArray, q: FloatArray, _: float) -> FloatArray:
    return 1.0 / (1.0 + u / q)


def _power(u: FloatArray, q: FloatArray, first: float) -> FloatArray:
    powered: FloatArray = (1.0 + u / first) ** -q
    return powered


def _exponential(u: FloatArray, q: FloatArray, _: float) -> FloatArray:
    return np.exp(-u / q)


def _log(u: FloatArray, q: FloatArray, _: float) -> FloatArray:
    return -np.log1p(u / q)


FAMILIES: dict[str, tuple[Shape, FloatArray]] = {
    "inverse": (_inverse, _GRID),
    "power": (_power, _POWERS),
    "exponential": (_exponential, _GRID),
    "log": (_log, _GRID),
}


@dataclass(frozen=True, slots=True)
class LossCurve:
    """A fitted curve: loss by step."""

    family: str
    floor: float
    drop: float
    inner: float
    scale: float
    """Steps per unit of the shape's argument."""
    first: float

    def loss(self, step: float) -> float:
        shape, _ = FAMILIES[self.family]
        at = shape(np.array([max(0.0, step) / self.scale]), np.array([self.inner]), self.first)
        return self.floor + self.drop * float(at[0])

    def steps_to_converge(self, threshold: float = 0.01, window: float = 0.1) -> float:
        """The step from which the loss falls by at most `threshold` of all its fall while steps grow by `window`."""
        if self.drop <= 0:
            return 0.0
        start, low, high = self.loss(0.0), self.scale / 1000.0, self.scale * 1e5

        def slow(step: float) -> bool:
            now, later = self.loss(step), self.loss(step * (1.0 + window))
            return now - later <= threshold * max(1e-12, start - later)

        if slow(low) or not slow(high):
            return low if slow(low) else math.inf
        for _ in range(40):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if slow(middle) else (middle, high)
        return high


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> tuple[tuple[float, float], ...]:
    """At most `most` points: neighbours are averaged in pairs, the newest quarter stays as it is."""
    if len(points) <= most:
        return tuple(points)
    keep = most // 4
    old, new = points[:-keep], points[-keep:]
    pairs = [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2) for a, b in zip(old[::2], old[1::2], strict=False)]
    return (*pairs, *(old[-1:] if len(old) % 2 else ()), *new)


def fit(points: Sequence[tuple[float, float]]) -> LossCurve | None:
    """The family that best predicts the last third from the rest, fitted to all points. None below four points."""
    if len(points) < LEAST_POINTS:
        return None
    steps, losses = (np.array(column, float) for column in zip(*points, strict=True))
    if not (np.isfinite(losses).all() and steps[-1] > steps[0]):
        return None
    held = max(1, len(points) // 3)
    errors = {}
    for family in FAMILIES:
        early = _fitted(family, steps[:-held], losses[:-held]) if len(points) - held >= 3 else None
        known = early or _fitted(family, steps, losses)
        errors[family] = sum(abs(known.loss(s) - y) for s, y in zip(steps[-held:], losses[-held:], strict=True))
    best = min(errors, key=errors.__getitem__)
    return _fitted(best, steps, losses)


def _fitted(family: str, steps: FloatArray, losses: FloatArray) -> LossCurve:
    shape, grid = FAMILIES[family]
    scale = float(steps[-1])
    u = steps / scale
    first = max(float(u[0]), 1e-3)
    weight = np.repeat([1.0, 4.0, 16.0], -(-len(u) // 3))[-len(u) :]
    weight /= weight.sum()
    for _ in range(2):
        square, drop, floor = _solved(shape(u[None, :], grid[:, None], first), losses, weight)
        best = int(square.argmin())
        inner, found = float(grid[best]), (float(floor[best]), float(drop[best]))
        grid = np.geomspace(grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)], 17)
    return LossCurve(family, *found, inner, scale, first)


def _solved(g: FloatArray, losses: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each shape: squared error, drop and floor of the best line through (shape, loss), falling or flat."""
    mean_g, mean_y = g @ weight, float(losses @ weight)
    dg, dy = g - mean_g[:, None], losses - mean_y
    drop = np.maximum(0.0, (dg * dy) @ weight / np.maximum(1e-18, (dg * dg) @ weight))
    off = dy[None, :] - drop[:, None] * dg
    return (off * off) @ weight, drop, mean_y - drop * mean_g
