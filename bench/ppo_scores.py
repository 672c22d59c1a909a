"""Scores for `ppo.py`: completion times by task, and ratios paired by task with their intervals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import gymnasium
import numpy as np
from numpy.typing import NDArray

from headway.compare.perform import Task, perform
from headway.compare.table import drawn_interval
from headway.learn.suites import Suite, suite_named
from headway.record.log import read
from headway.record.metrics import Tally
from headway.record.results import outcome

Runs = list[NDArray[np.float64]]
"""By task: the completion time of each job."""
Agent = Callable[[dict[str, np.ndarray]], int]


def suite_of(given: Suite | str) -> Suite:
    return suite_named(given) if isinstance(given, str) else given


def agent_runs(agent: Agent, env: gymnasium.Env, given: Suite | str, part: str, tasks: int) -> Runs:
    """The agent decides from the first job on."""
    suite, found = suite_of(given), []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(min(tasks, suite.sizes[part])):
            log = Path(folder) / f"{number}.log"
            seen, _ = env.reset(seed=0, options={"task": number, "world_seed": 0, "warm_up": 0.0, "log": log})
            over = [False]
            while not any(over):
                seen, _, *over, _ = env.step(agent(seen))
            tally = Tally()
            for line in read(log):
                tally(line)
            found.append(outcome(tally, suite.scenario(part, number).trace.jobs).completion)
    return found


def policy_runs(task: Task, given: Suite | str, part: str, tasks: int) -> Runs:
    suite = suite_of(given)
    return [perform(suite.scenario(part, number), task).completion for number in range(min(tasks, suite.sizes[part]))]


def mean(runs: Runs) -> float:
    return float(np.mean([run.mean() for run in runs]))


def slowest(run: NDArray[np.float64]) -> float:
    """The mean of the slowest 5 %."""
    return float(run[run >= np.quantile(run, 0.95)].mean())


def paired(runs: Runs, base: Runs, figure: Callable[[NDArray[np.float64]], float]) -> str:
    """By how many per cent a figure differs from the base's, and its 95 % interval over tasks."""
    logs = np.array([np.log(figure(run) / figure(other)) for run, other in zip(runs, base, strict=True)])
    middle, low, high = (100 * np.expm1(value) for value in (logs.mean(), *drawn_interval(logs)))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def table(found: Mapping[str, Runs], against: tuple[str, ...]) -> str:
    """One line for each: mean and slowest 5 %, then both against others on the same tasks."""
    others = "".join(f" | mean, and slowest 5 %, against {name} | better tasks" for name in against)
    lines = [f"| | mean | slowest 5 %{others} |", "|---" * (3 + 2 * len(against)) + "|"]
    for name, runs in found.items():
        line = f"| {name} | {mean(runs):,.0f} | {np.mean([slowest(run) for run in runs]):,.0f}"
        for other in against:
            base = found[other]
            better = sum(run.mean() < its.mean() for run, its in zip(runs, base, strict=True))
            both = f"{paired(runs, base, np.mean)}, {paired(runs, base, slowest)} | {better} of {len(runs)}"
            line += f" | {both if other != name else '|'}"
        lines.append(f"{line} |")
    return "\n".join(lines)
