"""Agents of Order-v0 and Size-v0 from a user's own file, as `file.py:name`, and as policies that decide runs.

An agent is a function from an observation to an action, or an object with `predict`, as Stable-Baselines has it. As a
policy it sees in each cycle what it would see in its environment, and its actions make the plan.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.core.draft import Draft
from headway.core.errors import UserError
from headway.core.plan import Plan
from headway.core.snapshot import Snapshot
from headway.cycle.sound import PolicyError, raised
from headway.learn.actions import IllegalAction, LegalActions
from headway.learn.episode import ask_all
from headway.learn.leaderboard import Agent
from headway.learn.line import WaitingLine
from headway.learn.order.env import OrderChoices
from headway.learn.play import arrived, may_wait
from headway.learn.sight import Sight, nothing_to_see
from headway.learn.size.env import SizeChoices
from headway.learn.slots_env import Choices, legal_now, observed
from headway.policies.headway import Headway
from headway.policies.learned import in_words

CHOICES: Mapping[str, tuple[Callable[[int], Choices], int]] = {
    "headway/Order-v0": (OrderChoices, 128),
    "headway/Size-v0": (SizeChoices, 64),
}
"""By environment: what may be done, and the slots that it has unless told otherwise."""


def load_agent(text: str, option: str = "--agent") -> Agent:
    """The agent, from a file in any folder. What goes wrong while the file is read is told in a sentence."""
    return as_agent(_found(text, option))


def as_agent(found: Any) -> Agent:
    """A function from an observation to an action. `predict` is asked for the best action, not for a drawn one."""
    predict = getattr(found, "predict", None)
    if not callable(predict):
        agent: Agent = found
        return agent
    takes = inspect.signature(predict).parameters
    fixed = {"deterministic": True} if "deterministic" in takes else {}

    def predicted(seen: dict[str, Any]) -> Any:
        masks = {"action_masks": seen["action_mask"].astype(np.bool_)} if "action_masks" in takes else {}
        told = predict(seen, **masks, **fixed)
        return told[0] if isinstance(told, tuple) else told

    return predicted


def agent_policy(text: str, env: str, slots: int = 0, seconds: float = 0.05) -> AgentPolicy:
    """The agent as a policy. Without `slots`, as many as the agent says that it sees, or as its environment has."""
    if env not in CHOICES:
        raise UserError(f"--env {env}: choose one of {', '.join(CHOICES)}")
    found, file = _found(text, "--policy"), Path(text.rpartition(":")[0]).absolute()
    knows_masks = not hasattr(found, "predict") or "action_masks" in inspect.signature(found.predict).parameters
    return AgentPolicy(
        agent=as_agent(found), env=env, slots=slots or _slots_of(found) or CHOICES[env][1], name=agent_name(text),
        file=str(file), seconds_per_cycle=seconds, illegal="raise" if knows_masks else "wait",
    )  # fmt: skip


def agent_name(text: str) -> str:
    """As a log names it: with the begin of the file's hash."""
    file, _, name = text.rpartition(":")
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else ""
    return f"{Path(file).name}:{name} {digest[:12]}"


@dataclass(slots=True, kw_only=True)
class AgentPolicy:
    """Decides where whoever watches it allows it (`Snapshot.standing`); else `headway` does."""

    agent: Agent
    env: str
    slots: int
    name: str
    file: str
    seconds_per_cycle: float
    """What it may take in the mean, where it is watched."""
    illegal: str = "raise"
    """What an illegal action does: `raise`, or `wait` for agents that know no masks."""
    base: Headway = field(default_factory=Headway)
    _timed: tuple[int, float, float] | None = None
    """Cycle and time of the snapshot that it decided last, and the seconds that it took."""

    def __call__(self, snapshot: Snapshot) -> Plan:
        if not snapshot.standing.decides:
            return self.base(snapshot)
        begun = time.perf_counter()
        plan = self.asked(snapshot)
        self._timed = snapshot.cycle, snapshot.now, time.perf_counter() - begun
        return plan

    def ready(self) -> AgentPolicy:
        """Asked once about nothing, so that what it loads for its first answer does not count as its time."""
        seen = nothing_to_see(self.slots, self.slots * CHOICES[self.env][0](self.slots).per_slot + 1)
        seen["action_mask"][-1] = 1
        with suppress(Exception):  # what fails here fails in the run, where it is told
            self.agent(seen)
        return self

    def took(self, snapshot: Snapshot, clock: Callable[[], float]) -> float:
        """Seconds that it takes to decide this snapshot. It is not asked twice."""
        if self._timed is not None and self._timed[:2] == (snapshot.cycle, snapshot.now):
            return self._timed[2]
        begun = clock()
        self.asked(snapshot)
        return clock() - begun

    def asked(self, snapshot: Snapshot) -> Plan:
        """What it would decide if nobody watched."""
        draft, scene, choices = Draft(snapshot), _Scene(snapshot), CHOICES[self.env][0](self.slots)
        actions = LegalActions(choices.slots * choices.per_slot + 1, self.illegal)
        finished = arrived(snapshot) - int(np.count_nonzero(~snapshot.jobs.over()))
        while choices.find(scene, draft, always=False):
            actions.legal = legal_now(choices, can_wait=may_wait(draft))
            action = self._answer(observed(choices, scene, draft, finished, actions.legal), actions)
            if action == len(actions.legal) - 1:
                break
            choices.carry_out(draft, *divmod(action, choices.per_slot))
        return draft.plan()

    def explain(self, snapshot: Snapshot, row: int) -> Mapping[str, Any]:
        """Who decides; where that is headway, what it says."""
        standing = snapshot.standing
        if standing.decides:
            since = f" ({standing.why})" if standing.why else ""
            return {"guard": {"mode": standing.mode or "unwatched", "sentence": f"The agent decides{since}."}}
        sentence = f"headway decides, the agent is {in_words(standing)}: {standing.why}."
        return {**self.base.explain(snapshot, row), "guard": {"mode": standing.mode, "sentence": sentence}}

    def _answer(self, seen: dict[str, Any], actions: LegalActions) -> int:
        try:
            return actions.checked(self.agent(seen))
        except IllegalAction as error:
            raise PolicyError(self.name, str(error), "illegal action") from error
        except Exception as error:
            raise raised(self.name, error, self.file) from error


class _Scene:
    """One cycle as an agent sees it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._view = snapshot, None
        self.line = WaitingLine()
        self.line.note(snapshot)

    _view: Sight | None

    @property
    def view(self) -> Sight:
        if self._view is None:
            ask_all(self._snapshot)
            self._view = Sight(self._snapshot, self.line)
        return self._view


def _slots_of(found: Any) -> int:
    """As many as its observation space has, where it has one; else 0."""
    try:
        return int(found.observation_space["jobs"].shape[0])
    except (AttributeError, KeyError, TypeError, IndexError):
        return 0


def _found(text: str, option: str) -> Any:
    file, _, name = text.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name:
        raise UserError(f"{option} {text}: give a file and a function, such as mine.py:agent")
    if not path.is_file():
        raise UserError(f"{option} {text}: there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{option} {text}: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found) and not callable(getattr(found, "predict", None)):
        raise UserError(f"{option} {text}: there is no function {name} in {path.name}")
    return found
