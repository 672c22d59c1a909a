"""Does it pay that `headway` takes what changes have taken on this cluster, in place of its setting `restart`?

    python bench/learned_restart.py --windows 16 --jitters 2
    python bench/learned_restart.py --windows 16 --jitters 2 --policies headway --fixed

Runs generated windows, as those of the learning proof with seeds of their own, in worlds in which a start takes 5, 30
and 300 seconds and so does the start of an added replica; a save takes 10. Every run begins with nothing. Prints mean
completion against `restart=30`: the mean over windows of the logarithm of the ratio, with its 95 % interval by Student.
A few seconds change a whole run, so arrivals are shifted by up to ten seconds per repeat. In the last column the true
cost is set from the begin.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from gap_parts import SEEDS, shifted

from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.core.policy import Policy
from headway.experiment.everything_cells import blind, world
from headway.policies.elastic import Elastic
from headway.policies.headway import Headway
from headway.sim.world import Costs, World
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace

STARTS = (5.0, 30.0, 300.0)
SAVE = 10.0
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""By windows less one: 95 %, two-sided."""
Make = Callable[..., Policy]
POLICIES: dict[str, Make] = {"headway": Headway, "elastic": Elastic}


def windows(count: int, start: float, *, fixed: bool) -> Iterator[Scenario]:
    """Generated jobs in a world in which a start takes this long."""
    nodes = tuple(open_cluster("8x4"))

    def costly(trace: Trace, seed: int) -> World:
        return replace(world(trace, seed), costs=Costs(start=start, save=SAVE, scale=start))

    for number in range(1, count + 1):
        share = 0.0 if fixed else 1.0
        given = Settings(jobs=60, load=1.2, elastic=share, mean_seconds=1800.0, seed=SEEDS + number)
        yield Scenario(blind(generate(given, nodes)), nodes, costly, "progress")


def mean_of(case: Scenario, name: str, make: Callable[[], Policy]) -> tuple[float, float]:
    """Mean completion, and the mean of the slowest 5 %."""
    found = perform(case, Task(policy=name, make=make, estimates="progress"))
    took = np.sort(found.completion[found.finished])
    return float(took.mean()), float(took[-max(1, len(took) // 20) :].mean())


def told(logs: np.ndarray) -> str:
    half = STUDENT[min(len(logs), len(STUDENT) + 1) - 2] * logs.std(ddof=1) / math.sqrt(len(logs))
    return f"{logs.mean():+6.1%} ({logs.mean() - half:+.1%} to {logs.mean() + half:+.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=16, help="generated windows; two at least")
    parser.add_argument("--jitters", type=int, default=2, help="repeats of each window")
    parser.add_argument("--policies", default="headway,elastic", help="names, with commas between them")
    parser.add_argument("--fixed", action="store_true", help="jobs keep the size that they ask for")
    asked = parser.parse_args()
    print(f"{'':<10}{'start':>6}{'learned, mean':>28}{'slowest 5 %':>28}{'true, mean':>28}")
    for name in asked.policies.split(","):
        for start in STARTS:
            made = POLICIES[name]
            ways = (made, lambda made=made: made(learned_restart=True),
                    lambda made=made, start=start: made(restart=start + SAVE))  # fmt: skip
            logs = []
            for case in windows(asked.windows, start, fixed=asked.fixed):
                repeats = [shifted(case, jitter) for jitter in range(asked.jitters)]
                runs = [np.mean([mean_of(one, name, way) for one in repeats], axis=0) for way in ways]
                logs.append(np.log(runs))
            apart = np.array(logs) - np.array(logs)[:, :1]
            columns = (apart[:, 1, 0], apart[:, 1, 1], apart[:, 2, 0])
            print(f"{name:<10}{start:>5.0f}s" + "".join(f"{told(column):>28}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
