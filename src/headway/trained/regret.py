"""Paired regret: the recent jobs of a log, in virtual time under the trained policy and under headway.

Example: the last 150 finished jobs take 1,020 s in the mean under the trained policy and 1,000 s under headway. The
regret is 2 %. Whether that is more than chance says its lower bound. A few seconds more or less can change a whole run,
and so can which of two jobs came first. So the jobs are replayed several times, each time in a somewhat different order
of arrival, and these replays are the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from headway.beliefs.file import NO_BELIEFS, LearnedBeliefs, read_beliefs
from headway.beliefs.kept_book import kept_beliefs
from headway.compare.own_log import trace_of_log
from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.core.node import FloatArray
from headway.core.policy import Policy
from headway.estimates.models.coefficients import BUILT_IN
from headway.forecast.eta import usual_costs
from headway.policies.wrappers.around import NO_WRAPPERS, Wrappers
from headway.sim.speed import Speed
from headway.sim.world import Costs, Reports, World
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
START_SECONDS, SAVE_SECONDS = 30.0, 10.0
"""What starts and stops take where too few were seen."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """What decides a live run, and what would decide it without training. Sent to another process, which makes both."""

    trained: Callable[[], Policy]
    plain: Callable[[], Policy]
    wrappers: Wrappers = NO_WRAPPERS
    """Both are within the same as the run."""
    beliefs: LearnedBeliefs = NO_BELIEFS
    """What the run began with."""


def regret_of(decider: Decider, log: Path, finished: int) -> Regret:
    """Of the recent jobs of a log, by which `finished` jobs have finished in all.

    Called in another process: it takes seconds.
    """
    case, around = recent(log, beliefs=decider.beliefs), decider.wrappers.around
    before = max(0, finished - len(case.trace.jobs))
    return compared(case, around(decider.trained()), around(decider.plain()), before=before)


def compared(case: Scenario, trained: Policy, plain: Policy, other_chance: int = 0, before: int = 0) -> Regret:
    """The two policies on the same jobs, in several worlds; `before` jobs were over before them.

    For A/A, `other_chance` is added to the second's seeds.
    """
    found: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for world in range(WORLDS):
        jobs = reordered(case, world)
        for policy, seed, into in ((trained, world, found[0]), (plain, world + other_chance, found[1])):
            task = Task(policy="replayed", make=partial(_same, policy), seed=seed, before=before)
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


def recent(log: Path, most: int = MOST_JOBS, beliefs: LearnedBeliefs = NO_BELIEFS) -> Scenario:
    """The last finished jobs of the log, as a scenario of its own on the log's nodes.

    It begins with what the run has learned, which is kept beside the log, and with the run's own costs and source of
    estimates. Where nothing is kept yet, it begins with the given beliefs.
    """
    trace, head = trace_of_log(log, Speed(profiles=BUILT_IN))
    jobs = tuple(replace(job, steps=job.steps or STEPS) for job in trace.jobs[-most:])
    kept = kept_beliefs(log)
    known = read_beliefs(kept) if kept.exists() else beliefs
    world = partial(replayed_world, costs=costs_of(known))
    return Scenario(rebase(replace(trace, jobs=jobs)), trace.nodes, world, head.estimates, log.name, beliefs=known)


def costs_of(known: LearnedBeliefs) -> Costs:
    """What starts and stops usually take, as far as that was seen."""
    return usual_costs(known.history.costs, START_SECONDS, SAVE_SECONDS)


def replayed_world(trace: Trace, seed: int, costs: Costs | None = None) -> World:
    return World(
        costs=costs or costs_of(NO_BELIEFS), speed=Speed(profiles=BUILT_IN), work=trace.work, samples=False,
        reports=REPORTS, seed=seed,
    )  # fmt: skip
