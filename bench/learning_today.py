"""Mean completion of `headway` on the windows of the learning proof, under whatever version of Headway is on the path.

    HEADWAY_TRACES=... PYTHONPATH=older/src python bench/learning_today.py PLAN out.json

The older version is the one before sizes were acted on as believed: its rule is no setting of today's policy, so its
own code must run. Windows are made as the proof makes them; what a window is has not changed since. Finished windows
are kept. PLAN is src/headway/experiment/learning/plan.json.
"""

from __future__ import annotations

import json
import sys
import time
from hashlib import sha256
from pathlib import Path

from headway.compare.perform import Task, perform
from headway.compare.scenario import Scenario
from headway.experiment.everything_cells import blind, case_of, world
from headway.policies.headway import Headway
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings


def generated(given: dict[str, object], digest: str, place: int) -> Scenario:
    nodes = tuple(open_cluster(str(given["cluster"])))
    settings = Settings(
        jobs=int(str(given["jobs"])), load=float(str(given["load"])), elastic=1.0,
        mean_seconds=float(str(given["mean_seconds"])), seed=int(digest[:8], 16) % 10**6 * 10_000 + place,
    )  # fmt: skip
    return Scenario(blind(generate(settings, nodes)), nodes, world, "progress")


def main() -> None:
    raw, out = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
    plan, digest = json.loads(raw), sha256(raw).hexdigest()
    found: dict[str, float] = json.loads(out.read_text()) if out.exists() else {}
    for group in plan["windows"]:
        for place in (*group["test"], *group["validation"]) if group["sizes"] == "chosen" else ():
            name = f"{group['source']} {place}"
            if name in found:
                continue
            begun = time.process_time()
            is_own = group["source"] == "generated"
            case = (
                generated(plan["generated"], digest, place) if is_own else case_of(group["source"], place, plan["jobs"])
            )
            one = perform(case, Task(policy="headway", make=Headway, estimates="progress"))
            found[name] = float(one.completion[one.finished].mean())
            out.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name}: {found[name]:,.0f} s, {time.process_time() - begun:.0f} s of cpu", flush=True)


if __name__ == "__main__":
    main()
