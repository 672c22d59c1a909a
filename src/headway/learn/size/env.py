"""`headway/Size-v0`: in each cycle the agent starts jobs at a size and grows or shrinks running ones, then waits.

The choices of slot s are the actions s * 7 to s * 7 + 6: start at 1/4, 1/2, 1, 2 or 4 times the asked-for size, grow to
twice the present size as far as there is room, shrink to half of it. The last action waits until something happens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.node import BoolArray
from headway.core.plan import Decision, Scale, Start
from headway.learn.actions import MaskArray
from headway.learn.order.shown import shown_of
from headway.learn.play import Play, Rules
from headway.learn.size.choices import (
    ASKED,
    CHOICES,
    Menu,
    carry_out,
    scalable,
    scale_choice,
    shown_running,
    start_choice,
)
from headway.learn.slots_env import SlotsEnv
from headway.policies.steps.start import left_waiting
from headway.policies.value.times import Rows

_NO_ROWS: Rows = np.zeros(0, np.intp)


def make_size(slots: int = 64, *, every_cycle: bool = False, illegal: str = "raise", **rules: Any) -> SlotsEnv:
    """`slots`: how many jobs are shown at most. Further arguments are the fields of `Rules`."""
    given = Rules(**{"suite": "elastic-v1", **rules})
    return SlotsEnv(SizeChoices(slots), given, every_cycle=every_cycle, illegal=illegal)


class SizeChoices:
    """Sizes to start at, and changes of size. Jobs that wait come before those that run."""

    per_slot = CHOICES

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.shown: Rows = _NO_ROWS
        self.waiting: Rows = _NO_ROWS
        self._legal: list[list[int]] = []

    def find(self, play: Play, draft: Draft, *, always: bool) -> bool:
        self.waiting = waiting = left_waiting(draft, draft.snapshot.jobs.waiting())
        running = left_waiting(draft, scalable(draft.snapshot))
        for_running = min(len(running), max(self.slots // 2, self.slots - len(waiting)))
        if len(waiting) > self.slots - for_running:
            waiting = waiting[shown_of(waiting, play.view, self.slots - for_running)]
        if len(running) > for_running:
            running = shown_running(running, play.view, for_running)
        self.shown, menu = np.concatenate((waiting, running)), Menu(draft)
        self._legal = [menu.of(row) for row in self.shown.tolist()]
        return always or any(self._legal)

    def legal(self, mask: MaskArray) -> None:
        mask[[slot * CHOICES + choice for slot, found in enumerate(self._legal) for choice in found]] = 1

    def carry_out(self, draft: Draft, slot: int, choice: int) -> None:
        carry_out(draft, self.shown.item(slot), choice)

    def action_for(self, draft: Draft, decision: Decision) -> int | None:
        places = np.flatnonzero(self.shown == draft.snapshot.jobs.row_of[decision.job])
        if not len(places):
            return None
        slot, choice = int(places[0]), None
        match decision:
            case Start(placement=placement):
                choice = start_choice(draft, self.shown.item(slot), placement, self._legal[slot])
            case Scale(nodes=nodes):
                choice = scale_choice(draft, self.shown.item(slot), nodes, self._legal[slot])
        return None if choice is None else slot * CHOICES + choice

    def fits(self) -> BoolArray:
        return np.array([ASKED in found for found in self._legal], np.bool_)

    def shown_waiting(self, draft: Draft) -> int:
        return int(np.count_nonzero(draft.snapshot.jobs.size[self.shown] == 0))
