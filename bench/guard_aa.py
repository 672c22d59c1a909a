"""How often the guard of a trained policy trips where there is no difference, and where there is one.

    python bench/guard_aa.py [--replays 20] [--jobs 150]

A/A: both sides are `headway`; what differs is chance alone (which nodes fail, and when). At most one of twenty may
trip. Then the same with a policy that is really worse (`WORSE` below), in the same world.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from headway.compare.scenario import Scenario
from headway.policies.headway import Headway
from headway.sim.faults import Faults
from headway.sim.world import World
from headway.trained.regret import compared, replayed_world
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace

FAULTS = Faults(mean_seconds_between=20_000.0, mean_repair_seconds=900.0)
WORSE = Headway(patience=1800.0, restart=300.0, cool_down=600.0, width_weight=0.0)


def faulty_world(trace: Trace, seed: int) -> World:
    return replace(replayed_world(trace, seed), faults=FAULTS, checkpoint_seconds=600.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--first", type=int, default=0, help="begin with this workload")
    chosen = parser.parse_args()
    nodes = tuple(open_cluster("8x4"))
    tripped = {"A/A": 0, "worse": 0}
    for number in range(chosen.first, chosen.first + chosen.replays):
        settings = Settings(jobs=chosen.jobs, load=1.3, mean_seconds=1200.0, spread=1.2, seed=7000 + number)
        case = Scenario(generate(settings, nodes), nodes, faulty_world, "progress", f"{number}")
        found = {
            "A/A": compared(case, Headway(), Headway(), 1000 + number),
            "worse": compared(case, WORSE, Headway()),
        }
        for name, one in found.items():
            tripped[name] += one.too_much
        print(f"{number}: " + "; ".join(f"{name} {one.sentence()}" for name, one in found.items()), flush=True)
    for name, count in tripped.items():
        print(f"{name}: {count} of {chosen.replays} tripped")


if __name__ == "__main__":
    main()
