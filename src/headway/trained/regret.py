"""Paired regret: the recent jobs of a log, in virtual time under the trained policy and under headway.

Example: the last 150 finished jobs take 1,020 s in the mean under the trained policy and 1,000 s under headway. The
regret is 2 %. Whether that is more than chance says its lower bound. A few seconds more or less can change a whole run,
and so can which of two jobs came first. So the jobs are replayed several times, each time in a somewhat different order
of arrival, and these replays are the sample.
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
from headway.policies.wrappers.around import NO_WRAPPERS, Wrappers
from headway.sim.speed import Speed
from headway.sim.world import Costs, Reports, World
from headway.trained.file import read_trained
from headway.workload.trace import Trace, rebase

LEAST_JOBS = 100
MOST_JOBS = 200
WORLDS = 6
"""Replays, each with another order of arrivals."""
NEAR = 20
"""Places by which a job may come earlier or later at most."""
STUDENT = 1.476
"""The one-sided 90 % bound of Student's distribution for six replays."""
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


def regret(trained: Sequence[FloatArray], plain: Sequence[FloatArray]) -> Regret:
    """By replay: completion times of the same jobs under both. Unfinished ones are NaN."""
    pairs = [_finished(*pair) for pair in zip(trained, plain, strict=True)]
    count = min(len(one) for one, _ in pairs)
    if not count:
        return Regret(0, 0.0, -math.inf)
    off = np.array([float(one.mean() / other.mean()) - 1.0 for one, other in pairs])
    error = float(off.std(ddof=1)) / math.sqrt(len(off)) if len(off) > 1 else math.inf
    return Regret(count, float(off.mean()), float(off.mean()) - STUDENT * error)


def _finished(trained: FloatArray, plain: FloatArray) -> tuple[FloatArray, FloatArray]:
    both = np.isfinite(trained) & np.isfinite(plain)
    return trained[both], plain[both]


def regret_of(log: Path, file: Path, wrappers: Wrappers = NO_WRAPPERS) -> Regret:
    """Of the recent jobs of a log, both policies within the same wrappers as the run that wrote it.

    Called in another process: it takes seconds.
    """
    case = recent(log)
    return compared(case, wrappers.around(read_trained(file).policy()), wrappers.around(Headway()))


def compared(case: Scenario, trained: Policy, plain: Policy, other_chance: int = 0) -> Regret:
    """The two policies on the same jobs, in several worlds. For A/A, `other_chance` is added to the second's seeds."""
    found: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for world in range(WORLDS):
        jobs = reordered(case, world)
        for policy, seed, into in ((trained, world, found[0]), (plain, world + other_chance, found[1])):
            task = Task(policy="replayed", make=partial(_same, policy), estimates="progress", seed=seed)
            one = perform(jobs, task)
            into.append(np.where(one.finished, one.completion, np.nan))
    return regret(*found)


def reordered(case: Scenario, world: int) -> Scenario:
    """The same jobs and the same moments of arrival, but neighbours may have changed places; world 0 is as it was."""
    if not world:
        return case
    jobs = case.trace.jobs
    places = np.arange(len(jobs)) + np.random.default_rng(world).uniform(0.0, NEAR, len(jobs))
    order = np.argsort(places, kind="stable").tolist()
    moved = tuple(replace(jobs[place], submit=job.submit) for place, job in zip(order, jobs, strict=True))
    return replace(case, trace=replace(case.trace, jobs=moved))


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
