"""A candidate of the search, and one run of it.

A run is an episode of Knobs-v0 in which the policy itself decides every cycle (`step_with`): the same cycles, and the
log that `headway simulate` gives. So what is trained is exactly what runs live.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.core.node import FloatArray
from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.learn.tuning.runs import RunFigures, figures_of
from headway.policies.headway import Headway
from headway.policies.learned import Learned
from headway.policies.network import HIDDEN, SettingsNetwork
from headway.policies.value.outlook import FEATURES, outlook

LEAST_SCALE = 0.05
Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the features were under `headway` on the training's tasks."""

    middle: Numbers
    scale: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True, slots=True)
class Candidate:
    """Everything that its network depends on. The inner layer is drawn by the seed and stays, the outer is trained."""

    knobs: tuple[str, ...]
    seed: int
    ranges: Ranges
    outer: Numbers
    """Row by row: the weights of one setting, then its bias."""

    def network(self) -> SettingsNetwork:
        rows, known = np.array(self.outer).reshape(len(self.knobs), HIDDEN + 1), self.ranges
        inner, bias = inner_layer(self.seed)
        return SettingsNetwork(
            self.knobs, np.array(known.middle), np.array(known.scale), np.array(known.low), np.array(known.high), inner,
            bias, rows[:, :HIDDEN].copy(), rows[:, HIDDEN].copy(),
        )  # fmt: skip


def inner_layer(seed: int) -> tuple[FloatArray, FloatArray]:
    chance = np.random.default_rng([seed, len(FEATURES)])
    inner = chance.normal(0.0, 1.0 / np.sqrt(len(FEATURES)), (HIDDEN, len(FEATURES)))
    return inner, chance.normal(0.0, 0.5, HIDDEN)


def run_candidate(scenario: Scenario, candidate: Candidate) -> RunFigures:
    """Called in other processes."""
    task = Task(policy="learned", make=partial(_made, candidate), estimates="progress")
    return figures_of(perform(scenario, task))


def _made(candidate: Candidate) -> Policy:
    return Learned(network=candidate.network())


def seen_features(scenario: Scenario) -> list[Numbers]:
    """What the features are, cycle by cycle, under `headway`; at most some hundred. Called in other processes."""
    found: list[Numbers] = []
    plain = Headway()

    def watching(snapshot: Snapshot) -> Plan:
        if len(snapshot.jobs.waiting()) or snapshot.jobs.any_elastic:
            found.append(tuple(outlook(snapshot).tolist()))
        return plain(snapshot)

    perform(scenario, Task(policy="headway", make=lambda: watching, estimates="progress"))
    return found[:: max(1, len(found) // 300)]


def ranges_of(seen: list[Numbers]) -> Ranges:
    table = np.array(seen)
    scale = np.maximum(table.std(axis=0), LEAST_SCALE)
    columns = (table.mean(axis=0), scale, table.min(axis=0), table.max(axis=0))
    return Ranges(*(tuple(round(float(value), 6) for value in column) for column in columns))
