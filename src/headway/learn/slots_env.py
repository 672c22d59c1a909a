"""An environment in which an agent builds the plan of a cycle step by step: jobs are in slots, the last action waits.

`headway/Order-v0` and `headway/Size-v0` are this one with other choices: what may be done with a job in a slot.
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import numpy as np

from headway.core.draft import Draft
from headway.core.node import BoolArray
from headway.core.plan import Decision
from headway.core.policy import Policy
from headway.learn.actions import LegalActions, MaskArray
from headway.learn.line import WaitingLine
from headway.learn.order.shown import rows_at
from headway.learn.play import Play, Rules
from headway.learn.sight import Observation, Sight, look, nothing_to_see, observation_space, survey
from headway.policies.value.times import Rows

Stepped = tuple[Observation, float, bool, bool, dict[str, Any]]


class Scene(Protocol):
    """What choices are found by."""

    line: WaitingLine

    @property
    def view(self) -> Sight:
        """What may be seen in this cycle. Made when first asked for."""


class Choices(Protocol):
    """What may be done with the jobs of one moment. An action is a slot times `per_slot`, plus a choice."""

    slots: int
    per_slot: int
    places: Rows | None
    """The waiting jobs that are shown first, as places in the line; None for all."""
    running: Rows
    """The jobs that are shown behind them: they run. As rows of the present snapshot."""

    def find(self, scene: Scene, draft: Draft, *, always: bool) -> bool:
        """Finds out which jobs are shown and what may be done with each. Whether there is a choice, or `always`."""

    def legal(self, mask: MaskArray) -> None:
        """Sets the legal actions but waiting to 1."""

    def carry_out(self, draft: Draft, slot: int, choice: int) -> None:
        """Into the draft."""

    def action_for(self, draft: Draft, decision: Decision) -> int | None:
        """The action that says this decision; None where none does."""

    def fits(self) -> BoolArray:
        """By slot: whether the job fits at the size it asks for."""


class SlotsEnv(gymnasium.Env[Observation, np.int64]):
    """`every_cycle`: the agent is asked where it has no choice, too. `illegal`: what an illegal action does."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  gymnasium's own declaration

    def __init__(self, choices: Choices, rules: Rules, *, every_cycle: bool, illegal: str) -> None:
        self.choices, self.rules, self._every_cycle = choices, rules, every_cycle
        self.slots, self.wait = choices.slots, choices.slots * choices.per_slot
        """The number of the action that waits."""
        self.action_space: LegalActions = LegalActions(self.wait + 1, illegal)
        self.observation_space = observation_space(self.slots, self.wait + 1)
        self.play: Play | None = None

    @property
    def shown(self) -> Rows:
        """The job of each slot, as rows of the present snapshot."""
        return np.concatenate((rows_at(self._playing().line, self.choices.places), self.choices.running))

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
            self.choices.carry_out(play.draft, *divmod(number, self.choices.per_slot))
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
        return self.choices.action_for(self._playing().draft, decision)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _playing(self) -> Play:
        if self.play is None or self.play.over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        return self.play

    def _go_on(self, play: Play, policy: Policy | None = None) -> None:
        """Goes on to the next moment at which the agent has a choice."""
        find, always = self.choices.find, self._every_cycle
        while not play.over and not find(play, play.draft, always=always):
            play.close_cycle(policy)
        self._set_mask(play)

    def _set_mask(self, play: Play) -> None:
        if play.over:
            legal: MaskArray = np.zeros(self.wait + 1, np.int8)
            legal[self.wait] = 1
        else:
            legal = legal_now(self.choices, can_wait=play.may_wait)
        self.action_space.legal = legal

    def _observed(self, play: Play) -> Observation:
        if play.over:
            return {**nothing_to_see(self.slots, self.wait + 1), "action_mask": self.action_space.legal.copy()}
        return observed(self.choices, play, play.draft, play.finished, self.action_space.legal)

    def _info(self, play: Play) -> dict[str, Any]:
        return {"action_mask": self.action_space.legal.copy(), "now": play.episode.now, **play.about}

    def _stepped(self, play: Play) -> Stepped:
        return self._observed(play), play.take_earned(), play.terminated, play.truncated, self._info(play)


def legal_now(choices: Choices, *, can_wait: bool) -> MaskArray:
    """The last action waits; it is also legal where no other is."""
    legal: MaskArray = np.zeros(choices.slots * choices.per_slot + 1, np.int8)
    choices.legal(legal)
    legal[-1] = can_wait or not legal[legal.argmax()]
    return legal


def observed(choices: Choices, scene: Scene, draft: Draft, finished: int, legal: MaskArray) -> Observation:
    """What an agent sees between two of its actions."""
    view, places = scene.view, choices.places
    jobs, mask = look(view, places, choices.running, choices.fits(), choices.slots)
    shown = len(scene.line.rows) if places is None else len(places)
    cluster = survey(view, draft.free, shown, finished)
    return {"jobs": jobs, "job_mask": mask, "cluster": cluster, "action_mask": legal.copy()}
