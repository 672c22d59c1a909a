"""`headway/Knobs-v0`: the agent sets the default policy's settings, once for every hour of virtual time.

An action has one number from -1 to 1 per setting of `KNOBS`; zeros are exactly the default policy. An hour's settings
hold from the first cycle of that hour on. The environment adds no cycles of its own.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from headway.core.node import BoolArray
from headway.core.policy import Policy
from headway.learn.actions import IllegalAction, MaskArray
from headway.learn.fitting import Fitting
from headway.learn.order.shown import shown_of
from headway.learn.play import Play, Rules
from headway.learn.sight import Float32, Observation, look, nothing_to_see, observation_space, survey
from headway.policies.knobs import KNOBS, acting, headway_at

Stepped = tuple[Observation, float, bool, bool, dict[str, Any]]


class KnobsEnv(gymnasium.Env[Observation, Float32]):
    """`slots`: how many waiting jobs are shown at most; `period`: seconds between decisions. Further: `Rules`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  gymnasium's own declaration

    def __init__(self, slots: int = 64, *, period: float = 3600.0, **rules: Any) -> None:
        self.rules, self.slots, self.period = Rules(**{"suite": "elastic-v1", **rules}), slots, period
        self.action_space = spaces.Box(-1.0, 1.0, (len(KNOBS),), np.float32)
        seen = observation_space(slots, len(KNOBS))
        self.observation_space = spaces.Dict({**seen, "settings": spaces.Box(-1.0, 1.0, (len(KNOBS),), np.float32)})
        self._fitting = Fitting()
        self._offsets: Float32 = np.zeros(len(KNOBS), np.float32)
        self._next = 0.0
        self.play: Play | None = None

    # ── gymnasium ───────────────────────────────────────────────────────────────────────────────────────

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        play = self.play = self.rules.begin(self.np_random, options)
        self._offsets = np.zeros(len(KNOBS), np.float32)
        self._next = play.began + self.period
        return self._observed(play), self._info(play)

    def step(self, action: Any) -> Stepped:
        offsets = np.asarray(action, np.float32)
        if offsets.shape != self.action_space.shape or not self.action_space.contains(offsets):
            raise IllegalAction(f"action {action!r}: give {len(KNOBS)} numbers from -1 to 1")
        self._offsets = offsets.copy()
        return self.step_with(headway_at(offsets.tolist()))

    def action_masks(self) -> BoolArray:
        """Which settings matter for the jobs so far. All may be set."""
        matters: BoolArray = self._mask().astype(np.bool_)
        return matters

    # ── experts ─────────────────────────────────────────────────────────────────────────────────────────

    def step_with(self, policy: Policy) -> Stepped:
        """A step in which this policy decides: until the next hour."""
        play = self.play
        if play is None or play.over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        while not play.over and play.episode.now < self._next:
            play.close_cycle(policy)
        while self._next <= play.episode.now:
            self._next += self.period
        return self._observed(play), play.take_earned(), play.terminated, play.truncated, self._info(play)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _mask(self) -> MaskArray:
        snapshot = None if self.play is None else self.play.snapshot
        if snapshot is None:
            return np.ones(len(KNOBS), np.int8)
        return np.array(acting(snapshot), np.int8)

    def _observed(self, play: Play) -> Observation:
        own: Observation = {"action_mask": self._mask(), "settings": self._offsets.copy()}
        if play.over:
            return {**nothing_to_see(self.slots, len(KNOBS)), **own}
        view, snapshot = play.view, play.view.snapshot
        places, fits = shown_of(view, self.slots), self._fitting.of(snapshot, snapshot.free, play.line)
        shown = fits if places is None else fits[places]
        jobs, mask = look(view, places, np.zeros(0, np.intp), shown, self.slots)
        cluster = survey(view, snapshot.free, len(shown), play.finished)
        return {"jobs": jobs, "job_mask": mask, "cluster": cluster, **own}

    def _info(self, play: Play) -> dict[str, Any]:
        return {"action_mask": self._mask(), "now": play.episode.now, **play.about}
