"""Paired regret: the recent jobs of a log, in virtual time under the trained policy and under headway.

Example: the last 150 finished jobs take 1,020 s in the mean under the trained policy and 1,000 s under headway. The
regret is 2 %. Whether that is more than chance says its lower bound. Two things are chance. Jobs of one stretch wait
for each other, so the stretch is cut into blocks, and the blocks are the sample. And a few seconds more or less can
change a whole run, so the stretch is replayed several times, with arrivals that differ by some seconds.
"""

from __future__ import annotations

import math
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
WORLDS = 3
"""Replays with other arrivals."""
JITTER = 30.0
"""Seconds by which arrivals differ at most."""
STUDENT = 1.886
"""The one-sided 90 % bound of Student's distribution for three replays; for the blocks alone it would be 1.383."""
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
    """From (replays, jobs): completion times of the same jobs, in the order of arrival. Unfinished ones are NaN."""
    both = (np.isfinite(trained) & np.isfinite(plain)).all(axis=0)
    count = int(both.sum())
    if count < BLOCKS:
        return Regret(count, 0.0, -math.inf)
    off = (trained - plain)[:, both] / plain[:, both].mean(axis=1, keepdims=True)
    blocks = np.array([part.mean() for part in np.array_split(off.mean(axis=0), BLOCKS)])
    error = math.hypot(_error(blocks), _error(off.mean(axis=1)))
    return Regret(count, float(off.mean()), float(off.mean()) - STUDENT * error)


def _error(sample: FloatArray) -> float:
    return float(sample.std(ddof=1)) / math.sqrt(len(sample)) if len(sample) > 1 else 0.0


def regret_of(log: Path, file: Path) -> Regret:
    """Of the recent jobs of a log. Called in another process: it takes seconds."""
    case = recent(log)
    return compared(case, read_trained(file).policy(), Headway())


def compared(case: Scenario, trained: Policy, plain: Policy, other_chance: int = 0) -> Regret:
    """The two policies on the same jobs, in several worlds. For A/A, `other_chance` is added to the second's seeds."""
    found: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for world in range(WORLDS):
        jobs = jittered(case, world)
        for policy, seed, into in ((trained, world, found[0]), (plain, world + other_chance, found[1])):
            task = Task(policy="replayed", make=partial(_same, policy), estimates="progress", seed=seed)
            one = perform(jobs, task)
            into.append(np.where(one.finished, one.completion, np.nan))
    return regret(np.array(found[0]), np.array(found[1]))


def jittered(case: Scenario, world: int) -> Scenario:
    """The same jobs, which arrive some seconds later; world 0 is as it was."""
    if not world:
        return case
    later = np.sort(np.random.default_rng(world).uniform(0.0, JITTER, len(case.trace.jobs))).tolist()
    jobs = tuple(replace(job, submit=job.submit + more) for job, more in zip(case.trace.jobs, later, strict=True))
    return replace(case, trace=replace(case.trace, jobs=jobs))


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
