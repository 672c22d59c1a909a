"""How many steps a job takes to its target: by its own metric, and by jobs of its model with the same target.

Frozen: learning from a job that reached its target makes another value. Only a few of the newest jobs are remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from headway.core.job import Target
from headway.core.node import FloatArray
from headway.estimates.fit import shapes
from headway.estimates.fit.shapes import Length

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
        shape = shapes.shape_of(points, target.value)
        kept = self.shapes if shape is None else (*self.shapes, shape)[-MOST_SHAPES:]
        return Reached((*self.lengths, float(step))[-MOST_LENGTHS:], kept)

    def known(self) -> tuple[float, float] | None:
        """Median and spread of lengths; None where there is no job to learn from."""
        return known_length(self.lengths)

    def library(self) -> FloatArray:
        """Their shapes and the plain ones."""
        plain = shapes.plain_shapes()
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
        found = shapes.length(points, target.value, like.library(), known, float(step))
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
