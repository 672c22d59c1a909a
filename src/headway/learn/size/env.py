"""`headway/Size-v0`: in each cycle the agent starts jobs at a size and grows or shrinks running ones, then waits.

The choices of slot s are the actions s * 7 to s * 7 + 6: start at 1/4, 1/2, 1, 2 or 4 times the asked-for size, grow to
twice the present size as far as there is room, shrink to half of it. The last action waits until something happens.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from headway.core.node import BoolArray
from headway.core.plan import Decision, Scale, Start
from headway.core.policy import Policy
from headway.learn.actions import LegalActions
from headway.learn.order.shown import shown_of
from headway.learn.play import Play, Rules
from headway.learn.sight import Observation, look, nothing_to_see, observation_space, survey
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
from headway.policies.steps.start import left_waiting
from headway.policies.value.times import Rows

Stepped = tuple[Observation, float, bool, bool, dict[str, Any]]
_NO_ROWS: Rows = np.zeros(0, np.intp)


class SizeEnv(gymnasium.Env[Observation, np.int64]):
    """`slots`: how many jobs are shown at most. Further arguments are the fields of `Rules`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  gymnasium's own declaration

    def __init__(self, slots: int = 64, *, every_cycle: bool = False, illegal: str = "raise", **rules: Any) -> None:
        self.rules, self.slots, self._every_cycle = Rules(**{"suite": "elastic-v1", **rules}), slots, every_cycle
        self.wait = slots * CHOICES
        """The number of the action that waits."""
        self.action_space: LegalActions = LegalActions(self.wait + 1, illegal)
        self.observation_space = observation_space(slots, self.wait + 1)
        self._waiting: Rows = _NO_ROWS
        self.shown: Rows = _NO_ROWS
        """The job of each slot, as rows of the present snapshot: first those that wait, then those that run."""
        self._legal: list[list[int]] = []
        self.play: Play | None = None

    # ── gymnasium ───────────────────────────────────────────────────────────────────────────────────────

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        play = self.play = self.rules.begin(self.np_random, options)
        self._go_on(play, play.rules.warm_up_policy)
        return self._observed(play), self._info(play)

    def step(self, action: Any) -> Stepped:
        play = self._playing()
        number = self.action_space.checked(action)
        if number == self.wait:
            play.close_cycle()
        else:
            assert play.draft is not None
            carry_out(play.draft, self.shown.item(number // CHOICES), number % CHOICES)
        self._go_on(play)
        return self._stepped(play)

    def action_masks(self) -> BoolArray:
        """Which actions are legal now, as MaskablePPO asks for it."""
        legal: BoolArray = self.action_space.legal.astype(np.bool_)
        return legal

    # ── experts ─────────────────────────────────────────────────────────────────────────────────────────

    def step_with(self, policy: Policy) -> Stepped:
        """A step in which this policy decides, until the agent would be asked in another cycle."""
        play = self._playing()
        play.close_cycle(policy)
        self._go_on(play, policy)
        return self._stepped(play)

    def action_for(self, decision: Decision) -> int | None:
        """The action that says this decision; None where none does."""
        draft = self._playing().draft
        assert draft is not None
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

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _playing(self) -> Play:
        if self.play is None or self.play.over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        return self.play

    def _go_on(self, play: Play, policy: Policy | None = None) -> None:
        """Goes on to the next moment at which the agent has a choice."""
        while not play.over and not self._has_choice(play):
            play.close_cycle(policy)
        self._set_mask(play)

    def _has_choice(self, play: Play) -> bool:
        """Also finds out which jobs are shown and what may be done with each."""
        draft = play.draft
        assert draft is not None
        self._waiting = waiting = left_waiting(draft, draft.snapshot.jobs.waiting())
        running = left_waiting(draft, scalable(draft.snapshot))
        for_running = min(len(running), max(self.slots // 2, self.slots - len(waiting)))
        if len(waiting) > self.slots - for_running:
            waiting = waiting[shown_of(waiting, play.view, self.slots - for_running)]
        if len(running) > for_running:
            running = shown_running(running, play.view, for_running)
        self.shown, menu = np.concatenate((waiting, running)), Menu(draft)
        self._legal = [menu.of(row) for row in self.shown.tolist()]
        return self._every_cycle or any(self._legal)

    def _set_mask(self, play: Play) -> None:
        legal = np.zeros(self.wait + 1, np.int8)
        if play.over:
            legal[self.wait] = 1
        else:
            legal[[slot * CHOICES + choice for slot, found in enumerate(self._legal) for choice in found]] = 1
            legal[self.wait] = play.may_wait or not legal.any()
        self.action_space.legal = legal

    def _observed(self, play: Play) -> Observation:
        if play.over:
            return {**nothing_to_see(self.slots, self.wait + 1), "action_mask": self.action_space.legal.copy()}
        draft = play.draft
        assert draft is not None
        fits = np.array([ASKED in found for found in self._legal], np.bool_)
        jobs, mask = look(play.view, self.shown, fits, self.slots)
        shown = int(np.count_nonzero(draft.snapshot.jobs.size[self.shown] == 0))
        cluster = survey(play.view, draft.free, self._waiting, shown, play.finished)
        return {"jobs": jobs, "job_mask": mask, "cluster": cluster, "action_mask": self.action_space.legal.copy()}

    def _info(self, play: Play) -> dict[str, Any]:
        return {"action_mask": self.action_space.legal.copy(), "now": play.episode.now, **play.about}

    def _stepped(self, play: Play) -> Stepped:
        return self._observed(play), play.take_earned(), play.terminated, play.truncated, self._info(play)
