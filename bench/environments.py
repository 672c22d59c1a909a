"""Steps a second of the environments, one core, with about a hundred waiting jobs.

    python bench/environments.py [--seconds 5] [--estimates progress,declared] [--env headway/Size-v0] [--profile]

Agents draw legal actions at random. Gymnasium's own `benchmark_step` measures: an action's draw, the step, the
observation and the resets are all in the figure. It is given the processor's time as its clock, so that other work on
the machine does not count; `--wall` measures by the wall clock.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import gymnasium
import numpy as np
from gymnasium.utils import performance

import headway.learn  # noqa: F401  registers the environments
from headway.compare.scenario import Scenario
from headway.learn.suites import Suite, fixed_world
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings

WANTED = 5_000
PUBLISHED = (65, 209)
"""Steps a second of an RLScheduler on stable-baselines3, as its authors tell."""
TASKS, JOBS, AT_ONCE, CLUSTER, LOAD = 8, 1_500, 200, "16x4", 1.15
"""With these, 99 jobs wait on average under an agent that draws at random, and 76 to 121 in eight steps of ten."""


@cache
def steady(number: int) -> Scenario:
    """Some jobs at once, most of which wait; from then on about as many come as go."""
    nodes = tuple(open_cluster(CLUSTER))
    trace = generate(Settings(jobs=JOBS, load=LOAD, spread=1.0, declared_error=1.0, seed=number), nodes)
    begin = trace.jobs[AT_ONCE].submit
    jobs = tuple(replace(job, submit=max(0.0, job.submit - begin), deadline=None) for job in trace.jobs)
    return Scenario(replace(trace, jobs=jobs), nodes, fixed_world, "declared", trace.name)


def make(name: str, estimates: str) -> gymnasium.Env:
    """Episodes end when no more jobs come: the queue would run empty."""
    cases = [steady(number) for number in range(TASKS)]
    suite = Suite("steady", "", {"train": TASKS}, lambda _, number: cases[number])
    horizon = min(case.trace.jobs[-1].submit for case in cases)
    env = gymnasium.make(
        name, disable_env_checker=True, suite=suite, estimates=estimates, warm_up=AT_ONCE / JOBS, horizon=horizon
    )
    env.action_space.seed(1)
    return env


def measure(name: str, estimates: str, seconds: int, *, profile: bool) -> str:
    env, waiting = make(name, estimates), []
    plain_step, profiler = env.step, cProfile.Profile()

    def step(action):  # noqa: ANN001, ANN202
        seen = plain_step(action)
        waiting.append(seen[0]["cluster"][2])
        return seen

    env.step = step
    if profile:
        profiler.enable()
    rate = performance.benchmark_step(env, seconds, seed=1)
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
    waits = np.exp2(np.array(waiting)) - 1
    few, many = np.percentile(waits, [10, 90])
    return (
        f"{name}  {estimates:9}  {rate:7,.0f} steps/s: {rate / WANTED:4.2f} of {WANTED:,}, "
        f"{rate / PUBLISHED[1]:.0f} to {rate / PUBLISHED[0]:.0f} times the published\n"
        f"{'':18}{waits.mean():.0f} jobs waited on average ({few:.0f} to {many:.0f} in eight steps of ten)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--estimates", default="declared,progress")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--env", default="headway/Order-v0")
    parser.add_argument("--wall", action="store_true")
    options = parser.parse_args()
    if not options.wall:
        performance.time = SimpleNamespace(time=time.process_time)
    for estimates in options.estimates.split(","):
        print(measure(options.env, estimates, options.seconds, profile=options.profile), flush=True)


if __name__ == "__main__":
    main()
