"""Every policy as an expert: it decides whole steps of an environment, or answers with its actions, for imitation.

`run_expert` takes any policy in any environment. `Expert` says what it would do in actions of Order-v0 or Size-v0, as
far as there are actions for it: these environments have none for stops, moves and reservations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from headway.core.errors import UserError
from headway.core.node import BoolArray
from headway.core.plan import Decision
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.learn.play import Play
from headway.policies.registry import POLICIES
from headway.trained.file import policy_named

Stepped = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]


class TakesPolicies(Protocol):
    """An environment as it is without wrappers: `env.unwrapped`."""

    play: Play | None

    def step_with(self, policy: Policy) -> Stepped: ...


class TakesDecisions(TakesPolicies, Protocol):
    """Order-v0 and Size-v0: what a policy decides may be said in actions."""

    wait: int

    def action_masks(self) -> BoolArray: ...

    def action_for(self, decision: Decision) -> int | None: ...


def experts() -> Mapping[str, Policy]:
    """All policies of the registry, as `--policy` takes them: `learned` is the one that comes with Headway."""
    return {name: policy_named(name) for name in POLICIES}


def run_expert(env: Any, policy: Policy, *, seed: int | None = None, options: dict[str, Any] | None = None) -> float:
    """A whole episode in which the policy decides; returns the sum of rewards. It also decides the warm-up."""
    env.reset(seed=seed, options={"warm_up_policy": policy, **(options or {})})
    bare: TakesPolicies = env.unwrapped
    total = 0.0
    while bare.play is not None and not bare.play.over:
        total += bare.step_with(policy)[1]
    return total


class CannotSay(UserError):  # noqa: N818  it names a fact
    """A policy decided something that this environment has no action for."""


class Expert:
    """Answers with actions. `strict` raises CannotSay where there is none; else such decisions are left out.

    Where nothing is left of a plan and waiting is not legal, because nothing runs, it is the first legal action.
    """

    def __init__(self, policy: Policy, *, strict: bool = True) -> None:
        self._policy, self._strict = policy, strict
        self._snapshot: Snapshot | None = None
        self._todo: Iterator[Decision] = iter(())
        self.left_out = 0
        """Decisions and wake-ups that could not be said."""

    def __call__(self, env: Any) -> int:
        """The action for the present moment of the environment."""
        bare: TakesDecisions = env.unwrapped
        assert bare.play is not None
        snapshot = bare.play.snapshot
        assert snapshot is not None
        if snapshot is not self._snapshot:
            self._snapshot, plan = snapshot, self._policy(snapshot)
            self._todo = iter(plan.decisions)
            if plan.until != math.inf:
                self._cannot("it wants to be asked again later")
        for decision in self._todo:
            action = bare.action_for(decision)
            if action is not None:
                return action
            self._cannot(f"there is no action for {type(decision).__name__} of job {decision.job!r}")
        legal = bare.action_masks()
        if legal[bare.wait]:
            return bare.wait
        self._cannot("it waits while nothing runs")
        return int(legal.argmax())

    def _cannot(self, why: str) -> None:
        self.left_out += 1
        if self._strict:
            raise CannotSay(why)
