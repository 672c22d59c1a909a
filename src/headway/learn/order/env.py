"""`headway/Order-v0`: in each cycle the agent starts waiting jobs one after the other, then waits.

Actions 0 to slots - 1 start the job of that slot where the packing policy puts it; the last action is to wait until
something happens. The agent is asked only while a job that it sees fits, unless `every_cycle` is set.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from headway.core.node import BoolArray
from headway.core.plan import Decision, Start
from headway.core.policy import Policy
from headway.learn.actions import LegalActions, MaskArray
from headway.learn.fitting import Fitting
from headway.learn.order.shown import shown_of
from headway.learn.play import Play, Rules
from headway.learn.sight import Observation, look, nothing_to_see, observation_space, survey
from headway.policies.placing.pack import place_asked
from headway.policies.steps.start import left_waiting
from headway.policies.value.times import Rows

Stepped = tuple[Observation, float, bool, bool, dict[str, Any]]
_NO_ROWS: Rows = np.zeros(0, np.intp)


class OrderEnv(gymnasium.Env[Observation, np.int64]):
    """`slots`: how many waiting jobs are shown at most. Further arguments are the fields of `Rules`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  gymnasium's own declaration

    def __init__(self, slots: int = 128, *, every_cycle: bool = False, illegal: str = "raise", **rules: Any) -> None:
        given = {"suite": "fixed-v1", "estimates": "declared", **rules}
        self.rules, self.slots, self._every_cycle = Rules(**given), slots, every_cycle
        self.wait = slots
        """The number of the action that waits."""
        self.action_space: LegalActions = LegalActions(slots + 1, illegal)
        self.observation_space = observation_space(slots, slots + 1)
        self._fitting = Fitting()
        self._waiting: Rows = _NO_ROWS
        self.shown: Rows = _NO_ROWS
        """The job of each slot, as rows of the present snapshot."""
        self._fits: BoolArray = np.zeros(0, np.bool_)
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
            self._start(play, self.shown.item(number))
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
        row = draft.snapshot.jobs.row_of[decision.job]
        places = np.flatnonzero(self.shown == row)
        if not isinstance(decision, Start) or not len(places):
            return None
        return int(places[0]) if place_asked(draft.snapshot, draft.free, row) == decision.placement else None

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _playing(self) -> Play:
        if self.play is None or self.play.over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        return self.play

    def _start(self, play: Play, row: int) -> None:
        draft = play.draft
        assert draft is not None
        placement = place_asked(draft.snapshot, draft.free, row)
        assert placement is not None, "the mask says that it fits"
        draft.start(row, placement)

    def _go_on(self, play: Play, policy: Policy | None = None) -> None:
        """Goes on to the next moment at which the agent has a choice."""
        while not play.over and not self._has_choice(play):
            play.close_cycle(policy)
        self._set_mask(play)

    def _has_choice(self, play: Play) -> bool:
        """Also finds out which jobs are shown and which of them fit."""
        draft = play.draft
        assert draft is not None
        if not self._fitting.any_shape(draft.snapshot, draft.free) and not self._every_cycle:
            return False
        waiting = left_waiting(draft, draft.snapshot.jobs.waiting())
        if not len(waiting) and not self._every_cycle:
            return False
        fits = self._fitting.of(draft.snapshot, draft.free, waiting)
        if not fits.any() and not self._every_cycle:
            return False
        self._waiting, self.shown, self._fits = waiting, waiting, fits
        if len(waiting) > self.slots:
            places = shown_of(waiting, play.view, self.slots)
            self.shown, self._fits = waiting[places], fits[places]
        return self._every_cycle or bool(self._fits.any())

    def _set_mask(self, play: Play) -> None:
        legal: MaskArray = np.zeros(self.slots + 1, np.int8)
        if play.over:
            legal[self.wait] = 1
        else:
            legal[: len(self._fits)] = self._fits
            legal[self.wait] = play.may_wait or not self._fits.any()
        self.action_space.legal = legal

    def _observed(self, play: Play) -> Observation:
        if play.over:
            return {**nothing_to_see(self.slots, self.slots + 1), "action_mask": self.action_space.legal.copy()}
        draft = play.draft
        assert draft is not None
        jobs, mask = look(play.view, self.shown, self._fits, self.slots)
        cluster = survey(play.view, draft.free, self._waiting, len(self.shown), play.finished)
        return {"jobs": jobs, "job_mask": mask, "cluster": cluster, "action_mask": self.action_space.legal.copy()}

    def _info(self, play: Play) -> dict[str, Any]:
        return {"action_mask": self.action_space.legal.copy(), "now": play.episode.now, **play.about}

    def _stepped(self, play: Play) -> Stepped:
        return self._observed(play), play.take_earned(), play.terminated, play.truncated, self._info(play)
