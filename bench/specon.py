"""SpeCon's set-up on two nodes of this machine: real short models share cores, with migration and without.

    python bench/specon.py --repeats 3

Each repeat runs examples/specon.yaml under `spread` and under `migration`, in turns that begin with the other one each
time. It prints each job's completion, the mean and the last end, as medians over repeats, and who got slower.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from headway.record.log import read
from headway.record.metrics import Tally

FILE = Path(__file__).parents[1] / "examples" / "specon.yaml"
POLICIES = {"spread": [], "migration": ["--set", "cool_down=20", "--set", "restart=5"]}


def completions(policy: str, folder: Path) -> dict[str, float]:
    """By job: seconds from its submission to its end; `moves` has how often one was moved."""
    command = [sys.executable, "-m", "headway", "run", str(FILE), "--policy", policy, *POLICIES[policy]]
    subprocess.run([*command, "--state", str(folder), "--json"], capture_output=True, check=True)
    tally = Tally(courses=True)
    for line in read(folder / "run.log"):
        tally(line)
    courses = list(tally.courses.values())
    found = {course.job.id: (course.ended or math.nan) - course.job.submit for course in courses}
    return {
        **found, "mean": statistics.fmean(found.values()), "last end": max(course.ended or 0.0 for course in courses),
        "moves": float(sum(course.stops for course in courses)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    runs: dict[str, list[dict[str, float]]] = {policy: [] for policy in POLICIES}
    for repeat in range(repeats):
        for policy in list(POLICIES) if repeat % 2 == 0 else list(reversed(POLICIES)):
            with tempfile.TemporaryDirectory() as folder:
                runs[policy].append(completions(policy, Path(folder) / "state"))
            one = runs[policy][-1]
            print(
                f"repeat {repeat + 1}, {policy}: mean {one['mean']:.1f} s, last end {one['last end']:.1f} s", flush=True
            )
    print(f"\n{'':10} {'spread':>8} {'migration':>10} {'change':>8}   change by repeat")
    for name in runs["spread"][0]:
        before, now = ([one[name] for one in runs[policy]] for policy in POLICIES)
        if name == "moves":
            print(f"{name:10} {statistics.median(before):>8.0f} {statistics.median(now):>10.0f}")
            continue
        each = [100.0 * (after / base - 1.0) for base, after in zip(before, now, strict=True)]
        print(
            f"{name:10} {statistics.median(before):>6.1f} s {statistics.median(now):>8.1f} s "
            f"{statistics.median(each):>+6.1f} %   {', '.join(f'{change:+.1f}' for change in each)}"
        )


if __name__ == "__main__":
    main()
