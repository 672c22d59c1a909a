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
from headway.learn.line import WaitingLine
from headway.learn.order.shown import rows_at, shown_of
from headway.learn.play import Rules
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
from headway.learn.slots_env import Scene, SlotsEnv
from headway.policies.steps.start import left_waiting
from headway.policies.value.times import Rows


def make_size(slots: int = 64, *, every_cycle: bool = False, illegal: str = "raise", **rules: Any) -> SlotsEnv:
    """`slots`: how many jobs are shown at most. Further arguments are the fields of `Rules`."""
    given = Rules(**{"suite": "elastic-v1", **rules})
    return SlotsEnv(SizeChoices(slots), given, every_cycle=every_cycle, illegal=illegal)


class SizeChoices:
    """Sizes to start at, and changes of size. Jobs that wait come before those that run."""

    per_slot = CHOICES

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.places: Rows | None = None
        self.running: Rows = np.zeros(0, np.intp)
        self._line = WaitingLine()
        self._legal: list[list[int]] = []
        self._shown: list[int] = []

    def find(self, scene: Scene, draft: Draft, *, always: bool) -> bool:
        self._line, waiting = scene.line, len(scene.line.rows)
        running = left_waiting(draft, scalable(draft.snapshot))
        for_running = min(len(running), max(self.slots // 2, self.slots - waiting))
        few = waiting <= self.slots - for_running
        self.places = None if few else shown_of(scene.view, self.slots - for_running)
        many = len(running) > for_running
        self.running = shown_running(running, scene.view.snapshot, for_running) if many else running
        self._shown, menu = [*rows_at(self._line, self.places).tolist(), *self.running.tolist()], Menu(draft)
        self._legal = [menu.of(row) for row in self._shown]
        return always or any(self._legal)

    def legal(self, mask: MaskArray) -> None:
        mask[[slot * CHOICES + choice for slot, found in enumerate(self._legal) for choice in found]] = 1

    def carry_out(self, draft: Draft, slot: int, choice: int) -> None:
        row = self._shown[slot]
        carry_out(draft, row, choice)
        if (place := self._line.place_of(row)) is not None:
            self._line.start(place)

    def action_for(self, draft: Draft, decision: Decision) -> int | None:
        row = draft.snapshot.jobs.row_of[decision.job]
        if row not in self._shown:
            return None
        slot, choice = self._shown.index(row), None
        match decision:
            case Start(placement=placement):
                choice = start_choice(draft, row, placement, self._legal[slot])
            case Scale(nodes=nodes):
                choice = scale_choice(draft, row, nodes, self._legal[slot])
        return None if choice is None else slot * CHOICES + choice

    def fits(self) -> BoolArray:
        return np.array([ASKED in found for found in self._legal], np.bool_)
