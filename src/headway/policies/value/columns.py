"""Running jobs that may be scaled, as columns: what each is worth now, and with a few replicas less.

Only jobs of one role that hold what they asked for are here; the few others are looked at one by one (`others`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headway.core.flags import all_of
from headway.core.job import Can
from headway.core.node import BoolArray, FloatArray, IntArray
from headway.core.snapshot import Snapshot
from headway.estimates.sizes.cache import FEWER, OWN_LINES
from headway.estimates.sizes.holder import ShapeSizes, SizesHolder
from headway.estimates.sizes.table import SizeTable
from headway.policies.value.formula import bounded, column, overrun, share_weight, time_weight
from headway.policies.value.terms import Terms
from headway.policies.value.times import Rows

Places = Rows | slice
"""Some places of the columns."""
ALL = slice(None)
_SCALE = int(Can.SCALE)


@dataclass(frozen=True, eq=False)
class SizeColumns:
    """Aligned with `rows`, which grow.

    They hold no `Worth`, which holds them: each cycle would leave a ring of objects for the garbage collector, with the
    snapshot and all columns in it.
    """

    snapshot: Snapshot
    sizes: ShapeSizes
    terms: Terms
    rows: Rows
    tables: list[SizeTable]
    count: Rows
    """Replicas."""
    speed: FloatArray
    above: FloatArray
    """The highest speed of any larger size."""
    ideal: FloatArray
    """The speed in the best place."""
    further: FloatArray
    """(options, jobs): the speed in the best place with each of `FURTHER` more replicas; 0 beyond the most."""
    many: IntArray
    """Replicas that could go; 0 where none may."""
    fewer: FloatArray
    """(2, jobs): the speed without one of them and without all of them."""
    seconds: FloatArray
    """Seconds left."""
    work: FloatArray
    """Seconds left at the asked-for size."""
    shape: IntArray
    others: list[int] = field(default_factory=list)
    """Running jobs that may be scaled and are not in the columns."""

    @classmethod
    def of(cls, snapshot: Snapshot, holder: SizesHolder, terms: Terms) -> SizeColumns:
        sizes = holder.shapes(snapshot)
        rows = _scalable(snapshot, sizes) if snapshot.estimates.known else np.empty(0, np.intp)
        others: list[int] = []
        if not sizes.all_tabled:
            tabled = sizes.tabled[snapshot.jobs.shape[rows]]
            others, rows = rows[~tabled].tolist(), rows[tabled]
        seconds = _seconds(snapshot, rows) if len(rows) else np.empty(0)
        if not math.isfinite(np.add.reduce(seconds)):
            known = np.isfinite(seconds)
            rows, seconds = rows[known], seconds[known]
        lines = holder.standings(snapshot, rows, changed_too=False)
        numbers, tables = lines.numbers, lines.tables
        usable: BoolArray = numbers[1] > 0.0
        if not all_of(usable):
            others += rows[numbers[0] < 0.0].tolist()
            chosen = usable.nonzero()[0]
            rows, seconds, numbers = rows[chosen], seconds[chosen], numbers[:, chosen]
            tables = [tables[place] for place in chosen.tolist()]
        count, speed, above, many, _, _, ideal = numbers[:OWN_LINES]
        return cls(
            snapshot, sizes, terms, rows, tables, count.astype(np.int64), speed, above, ideal, numbers[OWN_LINES:],
            many.astype(np.int64), numbers[FEWER], seconds, np.maximum(seconds * speed, 0.0),
            snapshot.jobs.shape[rows], sorted(others),
        )  # fmt: skip

    @cached_property
    def due(self) -> FloatArray:
        """When each has been left alone for long enough after the last decision about it."""
        snapshot, terms = self.snapshot, self.terms
        touched: FloatArray = snapshot.jobs.touched[self.rows]
        if not (terms.cool_down_share and snapshot.estimates.known and snapshot.estimates.beliefs.rich):
            return touched + terms.cool_down
        trained = snapshot.jobs.attained[self.rows] + touched - snapshot.jobs.since[self.rows]
        due: FloatArray = touched + np.maximum(terms.cool_down, terms.cool_down_share * trained)
        return due

    @cached_property
    def gifts(self) -> tuple[FloatArray, IntArray]:
        """The price per share of the cheapest replicas that could go, and how many they are; 0 where none may go."""
        left = np.array((self.count - 1, self.count - self.many))
        freed = np.maximum(self.share_of(self.count) - self.share_of(left), 1e-9)
        one_goes, all_go = (self.of_speeds(self.speed) - self.of_speeds(self.fewer)) / freed
        one = one_goes <= all_go
        return np.where(one, one_goes, all_go), np.where(self.many > 0, np.where(one, 1, self.many), 0)

    @cached_property
    def useless(self) -> BoolArray:
        """Jobs that would be no slower with fewer replicas."""
        found: BoolArray = (self.many > 0) & ((self.fewer[0] >= self.speed) | (self.fewer[1] >= self.speed))
        return found

    def seconds_at(self, speed: FloatArray, places: Rows) -> FloatArray:
        """Seconds until these jobs are done at these speeds, which are above 0."""
        seconds: FloatArray = self.work[places] / speed[places]
        return seconds

    def share_of(self, count: Rows) -> FloatArray:
        """Share of the cluster that this many replicas hold."""
        return self.share_at(ALL, count)

    def share_at(self, places: Places, count: Rows) -> FloatArray:
        """The same for jobs at some places of the columns."""
        sizes, shape = self.sizes, self.shape[places]
        return bounded(sizes.amount[shape] * count / sizes.whole[shape])

    def of_speeds(self, speed: FloatArray) -> FloatArray:
        """`Worth.value_at` these speeds."""
        return self.values_at(ALL, speed)

    def values_at(self, places: Places, speed: FloatArray) -> FloatArray:
        """The same for jobs at some places of the columns."""
        asked = self.asked_weight[self.shape[places]]
        return column(speed, asked, self.work[places], self._work_weight(places), self.terms)

    @cached_property
    def asked_weight(self) -> FloatArray:
        """By shape: the factor of worth by share."""
        return np.array([share_weight(share, self.terms) for share in self.sizes.share.tolist()], np.float64)

    def _work_weight(self, places: Places) -> FloatArray:
        """The factor of worth by what is left, computed when it is first asked for."""
        known = self._work_weights
        weight: FloatArray = known[places]
        missing = np.isnan(weight).nonzero()[0]
        if len(missing):
            missing = missing if isinstance(places, slice) else places[missing]
            known[missing] = [time_weight(work, self.terms) for work in self.work[missing].tolist()]
            weight = known[places]
        return weight

    @cached_property
    def _work_weights(self) -> FloatArray:
        return np.full(len(self.rows), np.nan)


def _scalable(snapshot: Snapshot, sizes: ShapeSizes) -> Rows:
    """Running jobs whose number of replicas a plan may change."""
    jobs = snapshot.jobs
    rows = jobs.running()
    may = sizes.elastic[jobs.shape[rows]] & ((jobs.can[rows] & _SCALE) > 0)
    return rows[may]


def _seconds(snapshot: Snapshot, rows: Rows) -> FloatArray:
    """Seconds left. A job that should be done by now needs a share of what it has trained."""
    seconds = snapshot.estimates.left_of(rows, snapshot.now)
    late = (seconds <= 0.0).nonzero()[0]
    if len(late):
        seconds[late] = overrun(snapshot, rows[late])
    return seconds
