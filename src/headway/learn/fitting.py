"""Which waiting jobs fit at the size that they ask for: shape by shape, and alike replicas are counted once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.core.jobs.columns import JobColumns
from headway.core.jobs.shapes import Shapes
from headway.core.node import BoolArray, IntArray
from headway.core.placement import RoleShape, Shape
from headway.core.quantity import LARGEST
from headway.core.snapshot import Snapshot
from headway.learn.line import NEED, SHAPE, WaitingLine
from headway.policies.placing.pack import place_asked
from headway.policies.placing.room import room, takes_empty

FEW = 100


class Fitting:
    """Remembers what follows from shapes and nodes alone. Counting is exact for jobs of one role; others are tried."""

    def __init__(self) -> None:
        self._shapes: Shapes | None = None
        self._kinds: list[RoleShape] = []
        """One role of each kind of replica."""
        self._kind_of: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._needs: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._tried: BoolArray = np.zeros(0, np.bool_)
        """By shape: whether counting does not tell."""
        self._any_tried = False
        self._free: IntArray | None = None
        self._fits: BoolArray = np.zeros(0, np.bool_)
        self._alike: tuple[int, int] | None = None
        self._total = 0
        self._any = False
        self._columns: JobColumns | None = None
        self._cycle = -1
        self._least = 0
        """Where all replicas are alike: no job that waits needs fewer."""

    def any_shape(self, snapshot: Snapshot, free: IntArray) -> bool:
        """Whether any job might fit. Costs next to nothing while what is free stays as it is."""
        if snapshot.jobs.shapes is not self._shapes:
            self._learn(snapshot)
        if free is not self._free:
            self._count(snapshot, free)
        return self._any

    def any_waiting(self, snapshot: Snapshot, free: IntArray) -> bool:
        """Whether a waiting job might fit, for who asks in every cycle and says so (`none_fits`) where none does."""
        if not self.any_shape(snapshot, free):
            return False
        jobs, cycle = snapshot.jobs, snapshot.cycle
        if cycle != self._cycle:
            if cycle != self._cycle + 1 or jobs.columns is not self._columns:
                self._least, self._columns = 0, jobs.columns
            for row in snapshot.changed:
                self._least = min(self._least, self._needs.item(jobs.columns.shapes[row]))
            self._cycle = cycle
        return self._alike is None or self._total >= self._least

    def none_fits(self, line: WaitingLine) -> None:
        """None of the waiting jobs fits: as long as no other waits, none does with less room than the least needs."""
        self._least = int(np.minimum.reduce(line.table[:, NEED])) if line.rows else LARGEST

    def of(self, snapshot: Snapshot, free: IntArray, line: WaitingLine) -> BoolArray:
        """Aligned with the line: whether `place_asked` finds a place."""
        self.any_shape(snapshot, free)
        return self.of_counted(snapshot, free, line)

    def of_counted(self, snapshot: Snapshot, free: IntArray, line: WaitingLine) -> BoolArray:
        """The same, where `any_shape` or `any_waiting` was asked about what is free just now."""
        if self._alike is not None:
            alike: BoolArray = line.table[:, NEED] <= self._total
            return alike
        shape = line.table[:, SHAPE].astype(np.intp)
        fits: BoolArray = self._fits[shape]
        if self._any_tried:
            for place in self._tried[shape].nonzero()[0].tolist():
                fits[place] = place_asked(snapshot, free, line.rows[place]) is not None
        return fits

    def _count(self, snapshot: Snapshot, free: IntArray) -> None:
        """Where all replicas are alike, one sum tells; else they are counted kind by kind."""
        # A draft writes into its own copy of what is free; only what a snapshot has stays as it is.
        self._free = None if free.flags.writeable else free
        if self._alike is not None:
            kind, amount = self._alike
            self._total = added(free[kind] if amount == 1 else free[kind] // amount)
            self._any = self._total > 0
            return
        totals = np.array([int(np.add.reduce(room(snapshot.nodes, free, role))) for role in self._kinds])
        self._fits = totals[self._kind_of] >= self._needs
        self._any = self._any_tried or bool(self._fits.any())

    def _learn(self, snapshot: Snapshot) -> None:
        shapes, known = snapshot.jobs.shapes, dict[object, int]()
        self._kinds, kind_of, tried = [], [], []
        for shape in shapes:
            role = shape.roles[0]
            kind = known.setdefault((role.asks, role.constraint), len(known))
            if kind == len(self._kinds):
                self._kinds.append(role)
            kind_of.append(kind)
            tried.append(not _is_counted(snapshot, shape))
        self._shapes, self._free = shapes, None
        self._kind_of = np.array(kind_of, np.intp)
        self._needs = np.array([shape.roles[0].replicas for shape in shapes], np.int64)
        self._tried = np.array(tried, np.bool_)
        self._any_tried = any(tried)
        self._cycle = -1
        self._alike = self._one_kind(snapshot)

    def _one_kind(self, snapshot: Snapshot) -> tuple[int, int] | None:
        """The kind of resource and the amount that every replica asks for, if no node refuses one and all count."""
        if len(self._kinds) != 1 or self._any_tried:
            return None
        role = self._kinds[0]
        return role.asks[0] if len(role.asks) == 1 and snapshot.nodes.all_suit(role.constraint) else None


def _is_counted(snapshot: Snapshot, shape: Shape) -> bool:
    """Whether there is room exactly if enough replicas fit, each by itself."""
    role = shape.roles[0]
    return len(shape.roles) == 1 and not shape.missing and takes_empty(snapshot.nodes, role, role.replicas)


def added(amounts: IntArray) -> int:
    """The sum. Of few numbers Python's own is several times faster than numpy's."""
    return sum(amounts.tolist()) if len(amounts) <= FEW else int(np.add.reduce(amounts))
