"""Of what is lost by not knowing where sizes are chosen: is it how jobs scale, or how long they take?

    HEADWAY_TRACES=... python bench/gap_parts.py --traces "generated;itp, half;sia" --jitters 2

Runs `headway` on tuning windows, which begin with nothing: with progress, with progress but true speeds at other sizes,
with progress but true times, and with the truth. Prints by trace how far each is above the truth: the mean over
windows of the logarithm. A few seconds change a whole run, so arrivals are shifted by up to ten seconds per repeat.
Generated windows are as those of the learning proof, with seeds of their own.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import headway.compare.perform as performing
from headway.compare.perform import Task, make_book, perform
from headway.compare.scenario import Scenario
from headway.core.estimates import Estimates
from headway.core.snapshot import Snapshot
from headway.cycle.loop import Book
from headway.experiment.everything_cells import blind, case_of, world
from headway.policies.headway import Headway
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings

TRUE_OF = ("nothing", "speeds", "times", "all")
SEEDS = 77_000_000
PLACES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class PartlyTrueBook:
    """Believes progress but for one part, of which it knows the truth."""

    believed: Book
    truth: Book
    part: str

    def fold(self, snapshot: Snapshot) -> PartlyTrueBook:
        return PartlyTrueBook(self.believed.fold(snapshot), self.truth.fold(snapshot), self.part)

    def annotate(self, snapshot: Snapshot) -> Snapshot:
        believed, truth = (book.annotate(snapshot).estimates for book in (self.believed, self.truth))
        speeds, times = (truth, believed) if self.part == "speeds" else (believed, truth)
        return snapshot.with_estimates(Estimates(lambda: times.beliefs, speeds.speed, scaling=speeds.scaling))


def windows(name: str, count: int) -> Iterator[Scenario]:
    if name == "generated":
        nodes = tuple(open_cluster("8x4"))
        for number in range(1, count + 1):
            given = Settings(jobs=60, load=1.2, elastic=1.0, mean_seconds=1800.0, seed=SEEDS + number)
            yield Scenario(blind(generate(given, nodes)), nodes, world, "progress")
        return
    for place in PLACES:
        yield case_of(name, place, 200, tuning=True)
        if name == "sia":  # workloads 1 to 3; with tuning, those are 4 to 6
            yield case_of(name, place, 200)


def shifted(case: Scenario, jitter: int) -> Scenario:
    if not jitter:
        return case
    chance = random.Random(jitter)
    moved = [replace(job, submit=job.submit + chance.uniform(0.0, 10.0)) for job in case.trace.jobs]
    return replace(case, trace=replace(case.trace, jobs=tuple(sorted(moved, key=lambda job: job.submit))))


def mean_of(case: Scenario, part: str) -> float:
    def made(estimates: str, truth: object = None, speed: object = None, beliefs: object = None) -> Book:
        known = {"truth": truth, "speed": speed, "beliefs": beliefs}
        return PartlyTrueBook(make_book(estimates, **known), make_book("oracle", **known), part)  # type: ignore[arg-type]

    performing.make_book = made if part in ("speeds", "times") else make_book
    found = perform(case, Task(policy="headway", make=Headway, estimates="oracle" if part == "all" else "progress"))
    return float(found.completion[found.finished].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default="generated;itp, half;itp, quarter;sia", help="names, with ; between them")
    parser.add_argument("--jitters", type=int, default=2, help="repeats of each window")
    parser.add_argument("--generated", type=int, default=12, help="generated windows")
    asked = parser.parse_args()
    print(f"{'above the truth with':<20}" + "".join(f"{'true ' + part:>14}" for part in TRUE_OF))
    for name in asked.traces.split(";"):
        logs = []
        for case in windows(name, asked.generated):
            repeats = [shifted(case, jitter) for jitter in range(asked.jitters)]
            logs.append([math.log(np.mean([mean_of(one, part) for one in repeats])) for part in TRUE_OF])
        above = np.array(logs) - np.array(logs)[:, -1:]
        print(f"{name:<20}" + "".join(f"{share:14.1%}" for share in above.mean(axis=0)), flush=True)


if __name__ == "__main__":
    main()
