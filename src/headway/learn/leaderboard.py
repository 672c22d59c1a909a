"""A leaderboard: what each policy, and perhaps an agent, reaches on the tasks of a suite.

A score reads "% of the gap closed": 0 is first-fit, 100 is the best of several policies that know the truth. Both are
run on the same tasks. Gaps are differences of logarithms of the mean completion time, averaged over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from headway import __version__
from headway.compare.perform import Task, Tell, perform, perform_all
from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.core.node import FloatArray
from headway.cycle.sound import raised
from headway.learn.actions import IllegalAction
from headway.learn.suites import Suite
from headway.policies.registry import POLICIES
from headway.trained.file import policy_named

LOWER = "first-fit"
"""0 % of the gap."""
KNOWING = ("srtf", "srsf", "headway", "elastic")
"""The best of these with the truth is 100 %, task by task."""
Agent = Callable[[dict[str, Any]], Any]
"""From an observation to an action."""


@dataclass(frozen=True, slots=True)
class Line:
    """`completion`: mean completion time in seconds, task by task; NaN where jobs were left."""

    name: str
    completion: tuple[float, ...]
    estimates: str


def score_policies(
    suite: Suite, part: str, names: Sequence[str], processes: int, tell: Callable[[int, float], None]
) -> list[Line]:
    """The named policies with the suite's beliefs, then those that know the truth."""
    wrong = next((name for name in names if name not in POLICIES), None)
    if wrong is not None:
        raise UserError(f"--policies {wrong}: there is no such policy; choose among {', '.join(POLICIES)}")
    wanted = [(name, "progress") for name in dict.fromkeys((LOWER, *names))] + [(name, "oracle") for name in KNOWING]
    cases = [suite.scenario(part, number) for number in range(suite.sizes[part])]
    items = [(name, estimates, number) for name, estimates in wanted for number in range(len(cases))]
    means = perform_all(_mean_completion, cases, items, processes, tell)
    found = dict(zip(items, means, strict=True))
    return [
        Line(name, tuple(found[name, estimates, number] for number in range(len(cases))), estimates)
        for name, estimates in wanted
    ]


def _mean_completion(cases: Sequence[Scenario], item: tuple[str, str, int], tell: Tell) -> float:
    name, estimates, number = item
    done = perform(cases[number], Task(policy=name, make=partial(policy_named, name), estimates=estimates), tell)
    return float(done.completion.mean())


def score_agent(env_id: str, suite: Suite, part: str, name: str, agent: Agent) -> Line:
    """An agent decides from the first job on, in every task of the part."""
    env = gymnasium.make(env_id, suite=suite, part=part, estimates="progress", warm_up=0.0, disable_env_checker=True)
    means = []
    for number in range(suite.sizes[part]):
        seen, _ = env.reset(seed=0, options={"task": number, "world_seed": 0})
        total, over = 0.0, [False, False]
        while not any(over):
            seen, reward, *over, _ = _stepped(env, name, agent, seen)
            total += float(reward)
        jobs = len(suite.scenario(part, number).trace.jobs)
        means.append(-total / jobs if over[0] else math.nan)
    return Line(name, tuple(means), "progress")


def _stepped(env: gymnasium.Env[Any, Any], name: str, agent: Agent, seen: dict[str, Any]) -> Any:
    """What goes wrong in the agent is told in a sentence that names the line."""
    try:
        action = agent(seen)
    except Exception as error:
        file = getattr(getattr(agent, "__code__", None), "co_filename", "")
        raise UserError(f"--agent {name}: {raised('', error, file).why}") from error
    try:
        return env.step(action)
    except IllegalAction as error:
        raise UserError(f"--agent {name}: {error}") from error


def ranked(suite: Suite, part: str, lines: Sequence[Line]) -> dict[str, Any]:
    """The leaderboard, ready for JSON: the best first."""
    lower = next(np.array(line.completion) for line in lines if line.name == LOWER and line.estimates != "oracle")
    knowing = [np.array(line.completion) for line in lines if line.estimates == "oracle"]
    best = np.nanmin(knowing, axis=0)
    gap = float(np.mean(np.log(lower / best)))
    scores = [
        {
            "policy": line.name, "estimates": line.estimates,
            "mean_completion": _number(float(np.mean(line.completion))),
            "gap_closed": _closed(lower, np.array(line.completion), gap),
            "tasks": [_number(value) for value in line.completion],
        }
        for line in lines
    ]  # fmt: skip
    return {
        "suite": suite.name, "part": part, "tasks": suite.sizes[part], "digest": suite.digest(part),
        "headway": __version__, "lower": LOWER, "upper": f"the best of {', '.join(KNOWING)}, knowing the truth",
        "scores": sorted(scores, key=lambda score: -(score["gap_closed"] if score["gap_closed"] is not None else -1e9)),
    }  # fmt: skip


def _closed(lower: FloatArray, completion: FloatArray, gap: float) -> float | None:
    """In percent; None where there is no gap, or where jobs were left."""
    return _number(100.0 * float(np.mean(np.log(lower / completion))) / gap) if gap > 0 else None


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
