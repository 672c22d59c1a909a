"""`headway/Order-v0`: in each cycle the agent starts waiting jobs one after the other, then waits.

Actions 0 to slots - 1 start the job of that slot where the packing policy puts it; the last action is to wait until
something happens. The agent is asked only while a job that it sees fits, unless `every_cycle` is set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.node import BoolArray
from headway.core.plan import Decision, Start
from headway.learn.actions import MaskArray
from headway.learn.fitting import Fitting
from headway.learn.line import WaitingLine
from headway.learn.order.shown import rows_at, shown_of
from headway.learn.play import Rules
from headway.learn.slots_env import Scene, SlotsEnv
from headway.policies.placing.pack import place_asked
from headway.policies.value.times import Rows

_NO_ROWS: Rows = np.zeros(0, np.intp)


def make_order(slots: int = 128, *, every_cycle: bool = False, illegal: str = "raise", **rules: Any) -> SlotsEnv:
    """`slots`: how many waiting jobs are shown at most. Further arguments are the fields of `Rules`."""
    given = Rules(**{"suite": "fixed-v1", "estimates": "declared", **rules})
    return SlotsEnv(OrderChoices(slots), given, every_cycle=every_cycle, illegal=illegal)


class OrderChoices:
    """One choice for each waiting job that fits: to start it at the size it asks for."""

    per_slot = 1

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.places: Rows | None = None
        self.running: Rows = _NO_ROWS
        self._line = WaitingLine()
        self._fitting = Fitting()
        self._fits: BoolArray = np.zeros(0, np.bool_)

    def find(self, scene: Scene, draft: Draft, *, always: bool) -> bool:
        snapshot, line = draft.snapshot, scene.line
        if not self._fitting.any_waiting(snapshot, draft.free) and not always:
            return False
        fits = self._fitting.of_counted(snapshot, draft.free, line)
        found = _any(fits)
        if not found:
            self._fitting.none_fits(line)
            if not always:
                return False
        self._line, self._fits, self.places = line, fits, None
        if len(line.rows) > self.slots:
            self.places = shown_of(scene.view, self.slots)
            self._fits = fits[self.places]
            found = _any(self._fits)
        return found or always

    def legal(self, mask: MaskArray) -> None:
        mask[: len(self._fits)] = self._fits

    def carry_out(self, draft: Draft, slot: int, choice: int) -> None:  # noqa: ARG002  the protocol
        place = slot if self.places is None else self.places.item(slot)
        row = self._line.rows[place]
        placement = place_asked(draft.snapshot, draft.free, row)
        assert placement is not None, "the mask says that it fits"
        draft.start(row, placement)
        self._line.start(place)

    def action_for(self, draft: Draft, decision: Decision) -> int | None:
        row = draft.snapshot.jobs.row_of[decision.job]
        places = np.flatnonzero(rows_at(self._line, self.places) == row)
        if not isinstance(decision, Start) or not len(places):
            return None
        return int(places[0]) if place_asked(draft.snapshot, draft.free, row) == decision.placement else None

    def fits(self) -> BoolArray:
        return self._fits


def _any(flags: BoolArray) -> bool:
    """The same as `flags.any()`, several times faster for few."""
    return bool(len(flags)) and flags.item(flags.argmax())
