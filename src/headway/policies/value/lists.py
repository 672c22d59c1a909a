"""Which jobs go on which type of accelerators: a list of jobs for each type.

Example: V100s and K80s are full. Job A takes 1 h on a V100 and 1.5 h on a K80, job B 1 h and 8 h. Both want the V100s;
A loses less by leaving them, so it goes into the list of the K80s.

Each job is in the list where it adds least to the sum of all completion times: its own time there, the time until its
turn, and the delay of those behind it. The shortest of a list come first. To that a price is added for the time of
each type, so that the types would end at the same time: a type that all want is dear. Jobs change lists a few at a
time, those that gain most first, until none gains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headway.core.node import BoolArray, FloatArray

Types = npt.NDArray[np.intp]
"""By job: the number of a type."""
PRICE_ROUNDS = 30
SWEEPS = 12
PRICE_WEIGHT = 10.0
"""How much the last end counts beside the sum of completion times."""
GAIN, STAY = 0.002, 0.02
"""A job changes its list for a gain of this share; a running job for the second, too."""
_NEVER = 1e12


@dataclass(frozen=True, eq=False)
class Demand:
    """Jobs in order of arrival, types, and what the jobs need of them."""

    seconds: FloatArray
    """(jobs, types), with what a start costs; infinite where the job cannot run."""
    width: FloatArray
    """Accelerators that the job holds."""
    slots: FloatArray
    """Accelerators by type, at least one; no job that can run there is wider."""
    first: npt.NDArray[np.int64]
    """By job: those with a smaller number come before all others in every list."""
    at: Types
    """Where the job runs; -1 where it waits."""
    fixed: BoolArray
    """Runs and stays where it is."""
    at_most: FloatArray
    """Like `seconds`, without what favours jobs that run: by these a job's latest start is told."""

    def only(self, jobs: Types) -> Demand:
        """The same without other jobs."""
        return Demand(
            self.seconds[jobs], self.width[jobs], self.slots, self.first[jobs], self.at[jobs], self.fixed[jobs],
            self.at_most[jobs],
        )  # fmt: skip

    @cached_property
    def fits(self) -> BoolArray:
        found: BoolArray = np.isfinite(self.seconds)
        return found

    @cached_property
    def area(self) -> FloatArray:
        """Seconds times width; 0 where it cannot run."""
        area: FloatArray = np.where(self.fits, self.seconds, 0.0) * self.width[:, None]
        return area

    @cached_property
    def order(self) -> Types:
        """(types, jobs): all jobs as they would come in the list of each type."""
        key = np.where(self.fixed[:, None], 0.0, self.area)
        return np.stack([np.lexsort((key[:, kind], self.first)) for kind in range(len(self.slots))])


def prices(demand: Demand) -> FloatArray:
    """What a second of one accelerator of each type is worth for the last end; together, all types cost 1 a second.

    Where every job takes what is cheapest for it, all types are about equally loaded.
    """
    slots, area = demand.slots, demand.area
    cost = np.where(demand.fits, area, _NEVER)
    price = np.full(len(slots), 1.0 / slots.sum())
    best, found = -1.0, price
    for number in range(PRICE_ROUNDS):
        here = cost * price
        pick = here.argmin(axis=1)
        bound = float(here[np.arange(len(pick)), pick].sum())
        if bound > best:
            best, found = bound, price
        load = np.bincount(pick, area[np.arange(len(pick)), pick], len(slots)) / slots
        step = 0.6 / (1.0 + 0.15 * number)
        price = price * np.exp(step * (load / max(float(load.mean()), 1e-9) - 1.0).clip(-1.0, 1.0))
        price = price / (price @ slots)
    return found


class Costs:
    """What each job adds to the sum of completion times in each list. What does not depend on the lists is kept."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        types, jobs = demand.order.shape
        self._kinds = np.arange(types)[:, None]
        self._slots = demand.slots[:, None]
        self._width = demand.width[demand.order]
        self._seconds = np.where(demand.fits, demand.seconds, 0.0).T[self._kinds, demand.order]
        self._apart = self._kinds * float(demand.width.sum() + 2.0 * demand.slots.max() + 10.0)
        """Keeps the lists apart where all are searched at once."""
        self._begin = self._kinds * jobs
        self._pad = np.zeros((types, 1))

    def __call__(self, member: Types) -> FloatArray:
        """(jobs, types); infinite where the job cannot run. `member`: the list of each job."""
        demand, order, slots = self.demand, self.demand.order, self._slots
        inside = member[order] == self._kinds
        width = np.where(inside, self._width, 0.0)
        upto = width.cumsum(axis=1)
        had = self._padded((width * self._seconds).cumsum(axis=1))
        number = self._padded(inside.cumsum(axis=1))
        before = upto - width
        start = self._taken(had, self._place(upto, before + self._width - slots, "right")) / slots
        far = self._place(upto, np.where(inside, upto, before) + slots, "left")
        behind = number[:, -1:] - self._taken(number, far)
        later = self._later(upto, inside)
        near = self._taken(later, far) - later[:, 1:]
        cost = self._seconds + start + self._width / slots * (self._seconds * behind + np.maximum(near, 0.0))
        found: FloatArray = np.empty((len(member), len(slots)))
        found[order, self._kinds] = cost
        return np.where(demand.fits, found, np.inf)

    def _later(self, upto: FloatArray, inside: BoolArray) -> FloatArray:
        """Sums of the seconds by which jobs within one round behind start later, for each accelerator in front."""
        at = np.minimum(self._place(upto, upto - self._slots, "right"), upto.shape[1] - 1)
        pushed = inside & (upto > self._slots)
        return self._padded(np.where(pushed, self._taken(self._seconds, at), 0.0).cumsum(axis=1))

    def _padded(self, sums: npt.NDArray[np.floating | np.integer]) -> FloatArray:
        return np.concatenate([self._pad, sums], axis=1)

    def _place(self, upto: FloatArray, wanted: FloatArray, side: str) -> Types:
        """How many places of its list are up to this width, for each place."""
        flat = np.searchsorted((upto + self._apart).ravel(), (wanted + self._apart).ravel(), side)  # type: ignore[call-overload]
        found: Types = flat.reshape(upto.shape) - self._begin
        return found

    def _taken(self, column: FloatArray, at: Types) -> FloatArray:
        return np.take_along_axis(column, at, axis=1)


def members(demand: Demand) -> Types:
    """The list of each job. Jobs that come before all others choose first, as if there were no others."""
    stays = (demand.at >= 0) & demand.fits[np.arange(len(demand.at)), demand.at]
    member = np.where(stays, demand.at, demand.seconds.argmin(axis=1))
    for level in np.unique(demand.first).tolist():
        present = (demand.first <= level).nonzero()[0]
        part = demand if len(present) == len(member) else demand.only(present)
        member[present] = _settled(part, member[present], part.first == level)
    return member


def _settled(demand: Demand, member: Types, may: BoolArray) -> Types:
    """The lists after those who may have changed theirs."""
    jobs, runs, may = np.arange(len(member)), demand.at >= 0, may & ~demand.fixed
    costs, extra = Costs(demand), PRICE_WEIGHT * len(member) * prices(demand) * demand.area
    floor: FloatArray | None = None
    for sweep in range(SWEEPS):
        cost = costs(member) + extra
        best = cost.argmin(axis=1)
        least = cost[jobs, best]
        if floor is None:
            floor = 1.0 + np.where(runs, GAIN + STAY, GAIN) * least
        gain = np.where(may, np.minimum(cost[jobs, member], _NEVER) - least, 0.0)
        gains = (gain > floor).nonzero()[0]
        if not len(gains):
            break
        few = max(1, int(len(gains) * (0.3 if sweep < SWEEPS // 2 else 0.1)))
        chosen = gains[(-gain[gains]).argsort(kind="stable")[:few]]
        member[chosen] = best[chosen]
    return member
