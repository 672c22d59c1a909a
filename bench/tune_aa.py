"""How often `headway tune` proposes a change where there is nothing to gain, and where there is.

    python bench/tune_aa.py [--logs 10] [--budget 120] [--window 60]

A/A: every candidate runs the default settings; what differs between two of them is chance alone (which nodes fail, and
when), drawn anew for each candidate. At most one of ten logs may get a proposal. `--there` runs the candidates' own
settings on logs of elastic jobs whose settings are plainly bad (`cool_down=600`: sizes are changed much too rarely), to
show that it finds a gain where there is one.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from functools import partial
from hashlib import sha256

from headway.compare.executors import make_executor
from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.learn.suites import blind, elastic_world, fixed_world
from headway.learn.tuning.runs import RunFigures, Runs, Setting, figures_of, run_window
from headway.learn.tuning.search import SearchSettings, as_setting, search
from headway.learn.tuning.verdict import judge
from headway.policies.headway import Headway
from headway.policies.knobs import KNOBS
from headway.sim.faults import Faults
from headway.sim.world import World
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace, rebase

FAULTS = Faults(mean_seconds_between=20_000.0, mean_repair_seconds=900.0)
POOR = {"cool_down": 600.0}


def faulty_world(number: int, trace: Trace, seed: int) -> World:
    return replace(fixed_world(trace, seed + number), faults=FAULTS, checkpoint_seconds=600.0)


def windows(log: int, jobs: int, count: int, *, elastic: bool = False) -> list[Scenario]:
    nodes = tuple(open_cluster("8x4"))
    settings = Settings(jobs=jobs * count, load=1.4, mean_seconds=1200.0, spread=1.2, seed=1000 + log)
    if elastic:
        settings = replace(settings, load=1.1, elastic=1.0, mean_seconds=1800.0)
    trace = blind(generate(settings, nodes))
    world = elastic_world if elastic else partial(faulty_world, log)
    return [
        Scenario(rebase(replace(trace, jobs=trace.jobs[first : first + jobs])), nodes, world, "progress",
                 f"{log}/{first}")
        for first in range(0, jobs * count, jobs)
    ]  # fmt: skip


def run_same(scenario: Scenario, settings: Setting) -> RunFigures:
    """The default settings; the candidate's only decide which chance it has, in each window another."""
    seed = int.from_bytes(sha256(repr((settings, scenario.source)).encode()).digest()[:4], "big")
    task = Task(policy="headway", make=Headway, estimates="progress", seed=seed)
    return figures_of(perform(scenario, task))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--window", type=int, default=60)
    parser.add_argument("--there", action="store_true")
    options = parser.parse_args()
    run, present = (run_window, POOR) if options.there else (run_same, {})
    proposed = 0
    with make_executor("", len(os.sched_getaffinity(0))) as pool:
        for log in range(options.logs):
            begun, cases = time.perf_counter(), windows(log, options.window, 12, elastic=options.there)
            given = SearchSettings(
                knobs=KNOBS[:13] if options.there else KNOBS[:12], present=present, budget=options.budget, seed=log
            )
            runs = Runs(pool, run=run)
            found, before = search(cases[:4], given, runs), as_setting(present)
            last = runs.all(cases[4:], [before, found.settings])
            judged = judge(found.settings, last[found.settings], last[before], given)
            proposed += judged.change
            print(
                f"log {log}: {'CHANGE' if judged.change else 'keep'}  gain {judged.gain:+.1%} "
                f"({judged.interval[0]:+.1%} to {judged.interval[1]:+.1%})  tuned {-found.score:+.1%}  "
                f"{judged.why}  {runs.made} runs, {time.perf_counter() - begun:.0f} s", flush=True,
            )  # fmt: skip
    print(f"{proposed} of {options.logs} logs got a proposal")


if __name__ == "__main__":
    main()
