"""What may be done with one job: five sizes to start at, grow, shrink. Which of them are legal now."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headway.core.draft import Draft
from headway.core.estimates import Counts
from headway.core.job import Can
from headway.core.node import IntArray
from headway.core.placement import Placement, Shape
from headway.core.snapshot import Snapshot
from headway.policies.placing.add_remove import grow, grown, may_scale, room_for_more, shrink, shrunk
from headway.policies.placing.pack import place
from headway.policies.value.times import Rows

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Sizes to start at, relative to the asked-for one."""
ASKED = FACTORS.index(1.0)
GROW, SHRINK = len(FACTORS), len(FACTORS) + 1
CHOICES = len(FACTORS) + 2
"""Choices per job: the sizes, grow to twice the size as far as there is room, shrink to half of it."""


def start_sizes(shape: Shape, *, chosen: bool) -> tuple[Counts | None, ...]:
    """Replicas per role for each factor; None for a size that another factor has already, or that it may not have."""
    sizes: list[Counts | None] = [None] * len(FACTORS)
    sizes[ASKED] = shape.counts
    if not chosen or not shape.elastic:
        return tuple(sizes)
    for number in sorted(range(len(FACTORS)), key=lambda number: abs(math.log(FACTORS[number]))):
        counts = tuple(
            min(max(round(role.replicas * FACTORS[number]), role.min, 1), role.max)
            if role.max > role.min else role.replicas
            for role in shape.roles
        )  # fmt: skip
        if counts not in sizes:
            sizes[number] = counts
    return tuple(sizes)


def elastic_role(shape: Shape) -> int | None:
    """The role whose number of replicas is changed: the first that may have more than one."""
    return next((number for number, role in enumerate(shape.roles) if role.max > role.min), None)


def larger(snapshot: Snapshot, row: int, role: int) -> int:
    now = len(snapshot.placements[row].nodes[role])
    return min(2 * max(1, now), snapshot.jobs.shape_at(row).roles[role].max)


def smaller(snapshot: Snapshot, row: int, role: int) -> int:
    now = len(snapshot.placements[row].nodes[role])
    return max(-(-now // 2), snapshot.jobs.shape_at(row).roles[role].min)


class Menu:
    """The legal choices of jobs in one draft. What jobs of one shape may do is found once."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._starts: dict[tuple[int, bool], list[int]] = {}
        self._more: dict[int, bool] = {}

    def of(self, row: int) -> list[int]:
        snapshot = self._draft.snapshot
        if row in snapshot.placements:
            return self._changes(row)
        number, chosen = snapshot.jobs.value(row, "shape"), bool(snapshot.jobs.value(row, "can") & Can.SIZE)
        found = self._starts.get((number, chosen))
        if found is None:
            shape = snapshot.jobs.shape_at(row)
            found = self._starts[number, chosen] = [
                choice
                for choice, counts in enumerate(start_sizes(shape, chosen=chosen))
                if counts is not None and place(snapshot, self._draft.free, shape, counts) is not None
            ]
        return found

    def _changes(self, row: int) -> list[int]:
        snapshot = self._draft.snapshot
        shape = snapshot.jobs.shape_at(row)
        role = elastic_role(shape)
        if role is None:
            return []
        now, legal = len(snapshot.placements[row].nodes[role]), []
        if now < shape.roles[role].max and self._has_room(row, role):
            legal.append(GROW)
        if now > max(1, shape.roles[role].min):
            legal.append(SHRINK)
        return legal

    def _has_room(self, row: int, role: int) -> bool:
        snapshot = self._draft.snapshot
        if snapshot.placements[row].requests is not None:
            return bool(room_for_more(snapshot, self._draft.free, row, role).any())
        number = snapshot.jobs.value(row, "shape")
        if number not in self._more:
            self._more[number] = bool(room_for_more(snapshot, self._draft.free, row, role).any())
        return self._more[number]


def carry_out(draft: Draft, row: int, choice: int) -> None:
    """Writes the choice into the draft."""
    snapshot = draft.snapshot
    shape = snapshot.jobs.shape_at(row)
    if choice < len(FACTORS):
        placement = _started(snapshot, draft.free, row, choice)
        assert placement is not None, "the mask says that it fits"
        draft.start(row, placement)
        return
    role = elastic_role(shape)
    assert role is not None
    if choice == GROW:
        grow(draft, row, role, larger(snapshot, row, role))
    else:
        shrink(draft, row, role, smaller(snapshot, row, role))


def _started(snapshot: Snapshot, free: IntArray, row: int, choice: int) -> Placement | None:
    shape = snapshot.jobs.shape_at(row)
    counts = start_sizes(shape, chosen=bool(snapshot.jobs.value(row, "can") & Can.SIZE))[choice]
    return None if counts is None else place(snapshot, free, shape, counts)


def start_choice(draft: Draft, row: int, wanted: Placement, legal: Sequence[int]) -> int | None:
    """The choice that starts a job exactly there; None where none does."""
    starts = (choice for choice in legal if choice < len(FACTORS))
    return next((one for one in starts if _started(draft.snapshot, draft.free, row, one) == wanted), None)


def scale_choice(draft: Draft, row: int, nodes: tuple[int, ...], legal: Sequence[int]) -> int | None:
    """The choice that gives a job exactly these nodes; None where none does."""
    snapshot = draft.snapshot
    role = elastic_role(snapshot.jobs.shape_at(row))
    if role is None:
        return None
    if GROW in legal and grown(snapshot, draft.free, row, role, larger(snapshot, row, role)) == nodes:
        return GROW
    if SHRINK in legal and shrunk(snapshot, row, role, smaller(snapshot, row, role)) == nodes:
        return SHRINK
    return None


def scalable(snapshot: Snapshot) -> Rows:
    """Rows of running jobs whose size may be changed now."""
    running = snapshot.jobs.running()
    if not snapshot.jobs.any_elastic:
        return running[:0]
    return np.array(
        [row for row in running.tolist() if snapshot.jobs.shape_at(row).elastic and may_scale(snapshot, row)], np.intp
    )


def shown_running(running: Rows, snapshot: Snapshot, slots: int) -> Rows:
    """Of more jobs than there are slots: those with the least believed time left, in order of arrival."""
    estimates = snapshot.estimates
    left = estimates.left_of(running, snapshot.now) if estimates.known else np.full(len(running), np.nan)
    return np.sort(running[np.argsort(left, kind="stable")[:slots]])
