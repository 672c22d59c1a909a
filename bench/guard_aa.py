"""How often the guard of a trained policy trips where there is no difference, and where there is one.

    python bench/guard_aa.py [--replays 20] [--jobs 150]

Without a difference, in two ways; at most one of twenty may trip:
- *alike*: settings that differ by so little that nothing is gained or lost, in the same worlds. As the guard replays.
- *other chance*: both sides are `headway`, but other nodes fail at other times. Harder than what the guard does.

With one: two policies that are really worse, in the same worlds.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from headway.compare.scenario import Scenario
from headway.policies.headway import Headway
from headway.sim.faults import Faults
from headway.sim.world import World
from headway.trained.regret import TOO_MUCH, compared, replayed_world
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace

FAULTS = Faults(mean_seconds_between=20_000.0, mean_repair_seconds=900.0)
ALIKE = Headway(trial=121.0, restart=30.5, margin=0.252)
WORSE = Headway(patience=1800.0, restart=300.0, cool_down=600.0, width_weight=0.0)
SLUGGISH = Headway(restart=300.0, cool_down=600.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--first", type=int, default=0, help="begin with this workload")
    chosen = parser.parse_args()
    nodes = tuple(open_cluster("8x4"))
    tripped: dict[str, int] = {}
    regrets: dict[str, list[float]] = {}
    for number in range(chosen.first, chosen.first + chosen.replays):

        def faulty_world(trace: Trace, seed: int, number: int = number) -> World:
            world = replayed_world(trace, seed + 100 * number)
            return replace(world, faults=FAULTS, checkpoint_seconds=600.0)

        settings = Settings(jobs=chosen.jobs, load=1.3, mean_seconds=1200.0, spread=1.2, seed=7000 + number)
        case = Scenario(generate(settings, nodes), nodes, replayed_world, "progress", f"{number}")
        faulty = replace(case, world=faulty_world)
        found = {
            "alike": compared(case, ALIKE, Headway()),
            "other chance": compared(faulty, Headway(), Headway(), 1_000_000),
            "worse": compared(case, WORSE, Headway()),
            "sluggish": compared(case, SLUGGISH, Headway()),
        }
        for name, one in found.items():
            tripped[name] = tripped.get(name, 0) + one.too_much
            regrets.setdefault(name, []).append(one.mean)
        print(f"{number}: " + "; ".join(f"{name} {one.sentence()}" for name, one in found.items()), flush=True)
    for name, count in tripped.items():
        above = [one for one in regrets[name] if one > TOO_MUCH]
        mean = sum(regrets[name]) / len(regrets[name])
        print(f"{name}: {count} of {chosen.replays} tripped; regret {mean:+.1%} in the mean, above 1 % in {len(above)}")


if __name__ == "__main__":
    main()
