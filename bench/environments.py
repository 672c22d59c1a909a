"""Steps a second of the environments, one core, with about a hundred waiting jobs.

    python bench/environments.py [--seconds 5] [--estimates progress,declared] [--profile]

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

JOBS, CLUSTER, AT_ONCE = 20_000, "16x4", 220


def steady(seed: int = 0) -> Scenario:
    """Enough jobs at once that about a hundred wait; from then on as many come as go."""
    nodes = tuple(open_cluster(CLUSTER))
    settings = Settings(jobs=JOBS, load=1.0, spread=1.0, declared_error=1.0, seed=seed)
    trace = generate(settings, nodes)
    begin = trace.jobs[AT_ONCE].submit
    jobs = tuple(replace(job, submit=max(0.0, job.submit - begin), deadline=None) for job in trace.jobs)
    return Scenario(replace(trace, jobs=jobs), nodes, fixed_world, "declared", trace.name)


def measure(name: str, estimates: str, seconds: int, *, profile: bool) -> str:
    case = steady()
    suite = Suite("steady", "", {"train": 1}, lambda *_: case)
    env = gymnasium.make(name, disable_env_checker=True, suite=suite, estimates=estimates, warm_up=0.01)
    waiting, plain_step = [], env.step

    def step(action):  # noqa: ANN001, ANN202
        seen = plain_step(action)
        waiting.append(seen[0]["cluster"][2])
        return seen

    env.step = step
    profiler = cProfile.Profile() if profile else None
    if profiler:
        profiler.enable()
    rate = performance.benchmark_step(env, seconds, seed=1)
    if profiler:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
    waits = np.exp2(np.array(waiting)) - 1
    return f"{name}  {estimates:9}  {rate:7,.0f} steps/s  {waits.mean():5.0f} jobs waited on average"


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
