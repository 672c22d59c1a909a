"""Least squares with coefficients that may not be negative, for a handful of them: Lawson's and Hanson's active set.

Plain numbers in a fixed order of operations: a fit is the same to the last digit on every machine, and for six
coefficients it takes less time than one call of a library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ENOUGH = 1e-10
"""A coefficient is freed where the error falls faster than this share of the largest number."""
SINGULAR = 1e-13
"""A column that others explain up to this share adds nothing."""
Matrix = list[list[float]]


class NormalEquations:
    """What the measurements so far say: `square` x = `toward`, before signs are looked at."""

    __slots__ = ("square", "toward")

    def __init__(self, count: int) -> None:
        self.square: Matrix = [[0.0] * count for _ in range(count)]
        """Only up to and with the diagonal until `solved`."""
        self.toward = [0.0] * count

    def copy(self) -> NormalEquations:
        other = NormalEquations(0)
        other.square, other.toward = [line.copy() for line in self.square], self.toward.copy()
        return other

    def add(self, terms: Sequence[float], right: float) -> None:
        """One measurement: the coefficients times these terms should be `right`."""
        toward = self.toward
        for number, (term, line) in enumerate(zip(terms, self.square, strict=True)):
            if term:
                for other in range(number + 1):
                    line[other] += term * terms[other]
                toward[number] += term * right

    def pull(self, number: int, weight: float, to: float) -> None:
        """One coefficient should be `to`."""
        square = weight * weight
        self.square[number][number] += square
        self.toward[number] += square * to

    def solved(self, start: Sequence[float] | None = None) -> list[float]:
        """The coefficients of which none is negative, with the smallest sum of squared errors.

        `start`: a guess, none of it negative; the nearer it is, the sooner this is done.
        """
        for number, line in enumerate(self.square):
            for other in range(number):
                self.square[other][number] = line[other]
        x = [0.0] * len(self.toward) if start is None else list(start)
        free = [number for number, value in enumerate(x) if value > 0.0]
        enough = ENOUGH * max(1.0, *map(abs, self.toward))
        for _ in range(3 * len(x) + 1):
            if free:
                free = self._descended(x, free)
            gains = self._gains(x, free)
            best = max(gains, key=gains.__getitem__, default=None)
            if best is None or gains[best] <= enough:
                break
            free = sorted([*free, best])
        return x

    def _descended(self, x: list[float], free: list[int]) -> list[int]:
        """Moves x to the best place for these coefficients, without those that would become negative on the way."""
        while free:
            solved = _without_signs(self.square, self.toward, free)
            down = [(number, value) for number, value in zip(free, solved, strict=True) if value <= 0.0]
            if not down:
                for number, value in zip(free, solved, strict=True):
                    x[number] = value
                return free
            step = min(x[number] / max(x[number] - value, 1e-300) for number, value in down)
            for number, value in zip(free, solved, strict=True):
                x[number] += step * (value - x[number])
            kept = [number for number in free if x[number] > 1e-15]
            for number in set(free).difference(kept):
                x[number] = 0.0
            free = kept
        return free

    def _gains(self, x: list[float], free: list[int]) -> dict[int, float]:
        """How fast the error falls with each coefficient that is held at 0."""
        return {
            number: self.toward[number] - sum(line[other] * x[other] for other in free)
            for number, line in enumerate(self.square)
            if number not in free
        }


def _without_signs(square: Matrix, toward: Sequence[float], free: Sequence[int]) -> list[float]:
    """The solution for these coefficients alone, by Cholesky's factors; 0 for one that others explain."""
    lower: Matrix = []
    solved: list[float] = []
    for here, number in enumerate(free):
        line, row, rest, right = square[number], list[float](), square[number][number], toward[number]
        for place in range(here):
            before, total = lower[place], line[free[place]]
            for one, other in zip(row, before, strict=False):
                total -= one * other
            factor = total / before[place] if before[place] else 0.0
            row.append(factor)
            rest -= factor * factor
            right -= factor * solved[place]
        root = math.sqrt(rest) if rest > SINGULAR * line[number] else 0.0
        row.append(root)
        lower.append(row)
        solved.append(right / root if root else 0.0)
    for here in range(len(free) - 1, -1, -1):
        row, value = lower[here], solved[here]
        value = solved[here] = value / row[here] if row[here] else 0.0
        for place in range(here):
            solved[place] -= row[place] * value
    return solved
