"""What share of its time each job gets on each type of accelerators, as a linear programme.

A job that has the shares `x` gains `sum(gain * x)`. `most` says how much every job can gain at least, by scipy's HiGHS.
`middle` are shares with which every job gains that much. There are many: those in the middle are taken, the farthest
from all limits (by the sum of logarithms), as solvers with an inner point find them. A corner, as the simplex finds it,
would starve some jobs of all that is left over.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from headway.core.errors import UserError
from headway.core.node import FloatArray

NEAR = 1e-4
"""Every job gains this share less than it could, so that there is a middle."""
_STEPS, _FORCES = 40, 4.0 ** np.arange(16)


def solver() -> Any:
    """scipy.optimize. It is loaded late, because few policies need it."""
    try:
        return import_module("scipy.optimize")
    except ImportError:
        raise UserError("this policy needs scipy, which is not installed: pip install 'headway[solver]'") from None


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """Jobs that share accelerators of several types."""

    gain: FloatArray
    """(jobs, types): what a job gains by all of its time on a type; 0 where it does not run there."""
    width: FloatArray
    """Accelerators that each job holds while it runs."""
    slots: FloatArray
    """Accelerators of each type."""

    def most(self) -> float:
        """The largest amount that every job can gain."""
        jobs, types = self.gain.shape
        places = np.arange(jobs * types)
        job, kind = places // types, places % types
        sparse = import_module("scipy.sparse").csr_array
        rows = np.concatenate([job, np.arange(jobs), jobs + job, 2 * jobs + kind])
        columns = np.concatenate([places, np.full(jobs, len(places)), places, places])
        values = np.concatenate([-self.gain.ravel(), np.ones(jobs), np.ones(len(places)), self.width[job]])
        found = solver().linprog(
            np.append(np.zeros(len(places)), -1.0), A_ub=sparse((values, (rows, columns))),
            b_ub=np.concatenate([np.zeros(jobs), np.ones(jobs), self.slots]), method="highs",
        )  # fmt: skip
        return float(found.x[-1])

    def middle(self, least: float) -> FloatArray:
        """(jobs, types): shares in the middle of those with which every job gains this, which is at most `most`."""
        path = _Path(self, least)
        share = np.full(self.gain.shape, 0.9 * min(1.0 / len(self.slots), (self.slots / self.width.sum()).min()))
        share[~path.may] = 0.0
        goal = 0.9 * float((path.gain * share).sum(axis=1).min())
        for force in _FORCES:
            if goal > 1.0 - NEAR:
                break
            share, goal = path.follow(share, goal, force * len(share))
        if goal > 1.0 - NEAR:
            share, _ = path.follow(share, 1.0 - NEAR, None)
        return share


class _Path:
    """Newton's method towards the middle, with an ever larger force towards a larger goal, which all jobs gain."""

    def __init__(self, of: Programme, goal: float) -> None:
        self.gain, self.width, self.slots = of.gain / goal, of.width, of.slots
        self.may = of.gain > 0

    def follow(self, share: FloatArray, goal: float, force: float | None) -> tuple[FloatArray, float]:
        """The shares with the largest sum of logarithms of what is left to each limit, plus force times the goal; None:
        the goal is fixed.
        """
        for _ in range(_STEPS):
            step, rise, slope = self._step(share, goal, force)
            if slope < 1e-6 or (force is not None and goal > 1.0 - NEAR):
                break
            size = self._size(share, goal, step, rise)
            share, goal = share + size * step, goal + size * rise
        return share, goal

    def _left(self, share: FloatArray, goal: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What is left of each job's time, of each type, and above the goal."""
        return 1.0 - share.sum(axis=1), self.slots - self.width @ share, (self.gain * share).sum(axis=1) - goal

    def _step(self, share: FloatArray, goal: float, force: float | None) -> tuple[FloatArray, float, float]:
        """Jobs meet only in the types and in the goal: small equations for each job, and one for what they share."""
        time, room, above = self._left(share, goal)
        jobs, types = share.shape
        inner = np.where(self.may, share, 1.0)
        uphill = np.where(
            self.may,
            1.0 / inner - 1.0 / time[:, None] - self.width[:, None] / room + self.gain / above[:, None], 0.0,
        )  # fmt: skip
        pull = self.gain / above[:, None]
        bend = self.may[:, :, None] * self.may[:, None, :] / time[:, None, None] ** 2 + pull[:, :, None] * pull[:, None]
        bend[:, range(types), range(types)] += np.where(self.may, 1.0 / inner**2, 1.0)
        shared = np.zeros((jobs, types, types + 1))
        shared[:, range(types), range(types)] = self.width[:, None] * self.may
        shared[:, :, types] = -pull / above[:, None] if force is not None else 0.0
        alone = np.linalg.solve(bend, np.concatenate([uphill[:, :, None], shared], axis=2))
        border = np.zeros((types + 1, types + 1))
        border[range(types), range(types)] = room**2
        border[types, types] = -(1.0 / above**2).sum() if force is not None else -1.0
        lift = 0.0 if force is None else force - (1.0 / above).sum()
        both = np.einsum("jkt,jku->tu", shared, alone[:, :, 1:])
        common = np.linalg.solve(
            both + border, np.einsum("jkt,jk->t", shared, alone[:, :, 0]) - np.append(np.zeros(types), lift)
        )
        step = alone[:, :, 0] - alone[:, :, 1:] @ common
        rise = float(common[types]) if force is not None else 0.0
        return step, rise, float((uphill * step).sum() + lift * rise)

    def _size(self, share: FloatArray, goal: float, step: FloatArray, rise: float) -> float:
        """The whole step, or so much of it that all limits are kept."""
        left = np.concatenate([share[self.may], *self._left(share, goal)])
        gone = -np.concatenate([
            step[self.may], -step.sum(axis=1), -(self.width @ step), (self.gain * step).sum(axis=1) - rise
        ])  # fmt: skip
        far = left[gone > 0] / gone[gone > 0]
        return float(min(1.0, 0.95 * far.min(initial=np.inf)))
