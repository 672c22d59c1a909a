"""Mean completion of `headway` on the windows of the learning proof, under whatever version of Headway is on the path.

    HEADWAY_TRACES=... PYTHONPATH=older/src python bench/learning_today.py PLAN FOLDER

The older version is the one before sizes were acted on as believed: its rule is no setting of today's policy, so its
own code must run (`git archive 3db7452^ src`). Windows are made as the proof makes them. Finished windows are kept.
PLAN is src/headway/experiment/learning/plan.json, FOLDER that of the proof (headway/experiments/learning in the user's
cache): `headway experiment learning` reads the file there.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.experiment import everything_cells
from headway.experiment.everything_cells import SMALL, blind, case_of, world
from headway.policies.headway import Headway
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace


def generated(given: dict[str, object], digest: str, place: int) -> Scenario:
    nodes = tuple(open_cluster(str(given["cluster"])))
    settings = Settings(
        jobs=int(str(given["jobs"])), load=float(str(given["load"])), elastic=1.0,
        mean_seconds=float(str(given["mean_seconds"])), seed=int(digest[:8], 16) % 10**6 * 10_000 + place,
    )  # fmt: skip
    return Scenario(blind(generate(settings, nodes)), nodes, world, "progress")


def between(trace: Trace, seed: int, jobs: int, *, tuning: bool = False) -> Trace:
    """As `everything_cells.window`, which knows no places between places in that version. Nothing is tuned here."""
    assert not tuning
    begin, end = len(trace.jobs) // 3, len(trace.jobs)
    if end <= SMALL:
        return replace(trace, jobs=trace.jobs[:jobs])
    further, number = divmod(seed - 1, 10)
    first = begin + int(
        (end - begin - jobs) * (number + (0.0, 0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875)[further]) / 10
    )
    return replace(trace, jobs=trace.jobs[first : first + jobs])


def main() -> None:
    everything_cells.window = between
    raw = Path(sys.argv[1]).read_bytes()
    plan, digest = json.loads(raw), sha256(raw).hexdigest()
    out = Path(sys.argv[2]) / f"older-{digest[:12]}.json"
    found: dict[str, float] = json.loads(out.read_text()) if out.exists() else {}
    chosen = [group for group in plan["windows"] if group["sizes"] == "chosen"]
    for part in ("test", "validation"):
        for source, place in [(group["source"], place) for group in chosen for place in group[part]]:
            name = f"{source} {place}"
            if name in found:
                continue
            begun = time.process_time()
            is_own = source == "generated"
            case = generated(plan["generated"], digest, place) if is_own else case_of(source, place, plan["jobs"])
            one = perform(case, Task(policy="headway", make=Headway, estimates="progress"))
            found[name] = float(one.completion[one.finished].mean())
            out.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name}: {found[name]:,.0f} s, {time.process_time() - begun:.0f} s of cpu", flush=True)


if __name__ == "__main__":
    main()
