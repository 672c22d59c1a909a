"""How much of what is lost by not knowing does a change win back, where sizes are chosen?

    HEADWAY_TRACES=... python bench/gap.py -o now.json
    HEADWAY_TRACES=... PYTHONPATH=older/src python bench/gap.py -o older.json
    python bench/gap.py --compare older.json now.json

Runs a policy on the tuning parts of the published traces whose jobs may be scaled (places 1 to 3 only: the others are
kept for proofs), once with progress and once with the truth. The gap is the mean completion with progress in the older
version, less that with the truth now. A comparison prints for each trace how much of it is closed, and the tail.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headway.experiment.case import Entry
from headway.experiment.everything_cells import case_of
from headway.experiment.perform import perform

WINDOWS = {
    "pollux": (1, 2, 3), "pollux untuned": (1, 2, 3), "sia": (1, 2, 3), "itp, half": (1, 2, 3),
    "itp, quarter": (1, 2, 3), "elasticflow t4": (1,), "elasticflow philly": (1,),
}  # fmt: skip
"""Places of the tuning parts; the last two are small traces, and have one place."""
JOBS = 200


def runs(
    policy: str, estimates: list[str], names: list[str], settings: dict[str, object]
) -> Iterator[dict[str, object]]:
    for name in names:
        for place in WINDOWS[name]:
            case = case_of(name, place, JOBS, tuning=len(WINDOWS[name]) > 1)
            for kind in estimates:
                begun = time.process_time()
                found = perform(case, Entry(policy, policy, estimates=kind, settings=settings), place)
                done = np.sort(found.completion[found.finished])
                yield {
                    "trace": name, "place": place, "estimates": kind, "policy": policy,
                    "stuck": int((~found.finished).sum()), "mean": float(done.mean()),
                    "p99": float(np.percentile(done, 99)), "slowest": float(done[-max(1, len(done) // 20) :].mean()),
                    "cpu_s": round(time.process_time() - begun, 2),
                }  # fmt: skip


def compare(older: Path, now: Path) -> None:
    """Closed gap by trace, from sums over its windows."""
    before, after = (_by_run(path) for path in (older, now))
    shares, header = (
        [],
        f"{'trace':<20}{'before':>9}{'now':>9}{'truth':>9}{'closed':>8}{'p99':>8}{'slowest':>9}{'cpu s':>8}",
    )
    print(header)
    for name, places in WINDOWS.items():
        here = [place for place in places if (name, place, "progress") in after and (name, place, "progress") in before]
        if not here:
            continue
        old, new = (_mean(one, name, here, "progress") for one in (before, after))
        truth = _mean(after if (name, here[0], "oracle") in after else before, name, here, "oracle")
        closed = (old["mean"] - new["mean"]) / (old["mean"] - truth["mean"])
        shares.append(closed)
        tail = [new[key] / old[key] - 1 for key in ("p99", "slowest")]
        print(f"{name:<20}{old['mean']:9,.0f}{new['mean']:9,.0f}{truth['mean']:9,.0f}{closed:8.0%}"
              f"{tail[0]:+8.1%}{tail[1]:+9.1%}{new['cpu_s']:8.1f}")  # fmt: skip
    print(f"{'median':<20}{float(np.median(shares)):35.0%}")


def _by_run(path: Path) -> dict[tuple[str, int, str], dict[str, float]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return {(one["trace"], one["place"], one["estimates"]): one for one in found}


def _mean(
    runs: dict[tuple[str, int, str], dict[str, float]], name: str, places: list[int], kind: str
) -> dict[str, float]:
    chosen = [runs[name, place, kind] for place in places]
    return {key: float(np.mean([one[key] for one in chosen])) for key in ("mean", "p99", "slowest", "cpu_s")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="headway")
    parser.add_argument("--estimates", default="progress,oracle")
    parser.add_argument("--traces", default=";".join(WINDOWS), help="names, with ; between them")
    parser.add_argument("--set", default="{}", help="settings of the policy, as JSON")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLDER", "NOW"))
    asked = parser.parse_args()
    if asked.compare:
        compare(*asked.compare)
        return
    for found in runs(asked.policy, asked.estimates.split(","), asked.traces.split(";"), json.loads(asked.set)):
        line = json.dumps(found)
        print(line, flush=True)
        if asked.output:
            with asked.output.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
