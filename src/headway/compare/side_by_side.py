"""Simulations from Python: one policy, or several side by side. The command line calls the same functions.

Example: `compare_policies(scenario, {"fifo": POLICIES["fifo"](), "mine": my_policy}).rows`. See docs/python.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from headway.compare.bounds import needs_of
from headway.compare.perform import Task, perform, perform_all, simulate
from headway.compare.scenario import Scenario
from headway.compare.table import CLAIRVOYANT, Compared, compared
from headway.core.policy import Policy
from headway.policies.registry import POLICIES


def simulate_policy(scenario: Scenario, policy: Policy, *, seed: int = 0) -> dict[str, Any]:
    """One run in virtual time: the figures that `headway simulate --json` prints."""
    name = getattr(policy, "__name__", type(policy).__name__)
    return simulate(scenario, Task(policy=name, make=partial(_given, policy), seed=seed)).result()


def compare_policies(
    scenario: Scenario, policies: Mapping[str, Policy], *, baseline: str = "", seeds: Iterable[int] = (0,),
    bounds: bool = True, processes: int = 1,
) -> Compared:  # fmt: skip
    """Runs of several policies, by the name that tables show. The first is the baseline unless another is named.

    With several processes, policies are sent to them: then they must be functions or classes of a module.
    """
    numbers = tuple(seeds)
    tasks = [
        Task(policy=name, make=partial(_given, policy), seed=seed, picture=seed == numbers[0])
        for name, policy in policies.items()
        for seed in numbers
    ]
    return side_by_side(scenario, tasks, baseline or next(iter(policies)), bounds=bounds, processes=processes)


def side_by_side(
    scenario: Scenario, tasks: Sequence[Task], baseline: str, *, bounds: bool = True, processes: int = 1,
    tell: Callable[[int, float], None] | None = None,
) -> Compared:  # fmt: skip
    """Performs the tasks, and the runs that bounds need after them. `tell` gets a run's number and its share done."""
    every = [*tasks, *(bound_tasks(scenario, tasks) if bounds else [])]
    outcomes = perform_all(perform, scenario, every, processes, tell or _silent)
    needs = needs_of(scenario, tasks[0].seed) if bounds else []
    return compared(tasks, outcomes, baseline, needs, scenario)


def bound_tasks(scenario: Scenario, tasks: Sequence[Task]) -> list[Task]:
    """The clairvoyant runs that only the bound needs, with the first seed."""
    wanted = [name for name in CLAIRVOYANT if name in POLICIES]
    if scenario.estimates == "oracle":
        wanted = [name for name in wanted if all(name != task.policy for task in tasks)]
    return [Task(policy=name, make=POLICIES[name], estimates="oracle", seed=tasks[0].seed) for name in wanted]


def _given(policy: Policy) -> Policy:
    return policy


def _silent(number: int, share: float) -> None:
    """Tells nobody."""
