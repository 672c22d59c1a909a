"""Paired regret: the recent jobs of a log, in virtual time under the trained policy and under headway.

Example: the last 150 finished jobs take 1,020 s in the mean under the trained policy and 1,000 s under headway. The
regret is 2 %. Whether that is more than chance says its lower bound. Jobs of one stretch wait for each other, so they
are not told apart one by one: the stretch is cut into blocks, and the blocks are the sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from headway.compare.own_log import trace_of_log
from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.core.node import FloatArray
from headway.core.policy import Policy
from headway.estimates.models.coefficients import BUILT_IN
from headway.policies.headway import Headway
from headway.sim.speed import Speed
from headway.sim.world import Costs, Reports, World
from headway.trained.file import read_trained
from headway.workload.trace import Trace, rebase

LEAST_JOBS = 100
MOST_JOBS = 200
BLOCKS = 10
STUDENT = 1.383
"""The one-sided 90 % bound of Student's distribution for ten blocks."""
TOO_MUCH = 0.01
"""Regret whose lower bound is above this share switches the trained policy off."""
STEPS = 1_000_000
COSTS = Costs(start=30.0, scale=30.0, save=10.0, resize=1.0)
REPORTS = Reports(seconds=60.0, growth=0.1)


@dataclass(frozen=True, slots=True)
class Regret:
    """Share by which mean completion is longer under the trained policy; below zero it is shorter."""

    jobs: int
    mean: float
    lower: float

    @property
    def enough(self) -> bool:
        return self.jobs >= LEAST_JOBS

    @property
    def too_much(self) -> bool:
        return self.enough and self.lower > TOO_MUCH

    def sentence(self) -> str:
        return f"{self.mean:+.1%} mean completion over {self.jobs} jobs (lower bound {self.lower:+.1%})"


def regret(trained: FloatArray, plain: FloatArray) -> Regret:
    """From the completion times of the same jobs, in the order of their arrival. Unfinished ones are NaN."""
    both = np.isfinite(trained) & np.isfinite(plain)
    off, count = (trained - plain)[both], int(both.sum())
    if count < BLOCKS:
        return Regret(count, 0.0, -math.inf)
    off /= plain[both].mean()
    blocks = np.array([part.mean() for part in np.array_split(off, BLOCKS)])
    error = float(blocks.std(ddof=1)) / math.sqrt(BLOCKS)
    return Regret(count, float(off.mean()), float(off.mean()) - STUDENT * error)


def regret_of(log: Path, file: Path) -> Regret:
    """Of the recent jobs of a log. Called in another process: it takes seconds."""
    case = recent(log)
    return compared(case, read_trained(file).policy(), Headway())


def compared(case: Scenario, trained: Policy, plain: Policy, seeds: Sequence[int] = (0, 0)) -> Regret:
    """The two policies on the same jobs; with the same seed in the same world."""
    found = [
        perform(case, Task(policy="replayed", make=partial(_same, policy), estimates="progress", seed=seed))
        for policy, seed in zip((trained, plain), seeds, strict=True)
    ]
    return regret(*(np.where(one.finished, one.completion, np.nan) for one in found))


def _same(policy: Policy) -> Policy:
    return policy


def recent(log: Path, most: int = MOST_JOBS) -> Scenario:
    """The last finished jobs of the log, as a scenario of its own on the log's nodes."""
    trace, _ = trace_of_log(log, Speed(profiles=BUILT_IN))
    jobs = tuple(replace(job, steps=job.steps or STEPS) for job in trace.jobs[-most:])
    return Scenario(rebase(replace(trace, jobs=jobs)), trace.nodes, replayed_world, "progress", log.name)


def replayed_world(trace: Trace, seed: int) -> World:
    return World(
        costs=COSTS, speed=Speed(profiles=BUILT_IN), work=trace.work, samples=False, reports=REPORTS, seed=seed
    )
