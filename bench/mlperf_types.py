"""How fast accelerators train beside an H100 or H200, by MLPerf's result logs. docs/accelerators.md has the figures.

    python bench/mlperf_types.py training_results_v4.0 training_results_v4.1 training_results_v5.0

Folders are clones of github.com/mlcommons/training_results_*; their last commit is read, a work tree is not needed.
A system counts by its time to train, the mean of all runs but the fastest and the slowest; a type in a round by its
median system of eight accelerators. Printed are ratios by model, the geometric mean over rounds, then that over models.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, geometric_mean, median

TYPES = {"mi300x": "MI300X", "b200": "B200-SXM", "h200": "H200-SXM", "h100": "H100-SXM"}
PAIRS = (("h200", "h100"), ("b200", "h100"), ("b200", "h200"), ("mi300x", "h200"))
ACCELERATORS, FEWEST = 8, 3
EVENT = re.compile(r":::MLLOG (\{.*\"run_(?:start|stop)\".*\})")
SYSTEM, RUN = r"([^/]+)/systems/([^/]+)\.json", r"([^/]+)/results/([^/]+)/([^/]+)/result_\d+\.txt"
OWN_WAY = "tinycorp"
"""Shows its own framework on hardware of all kinds: its times are not of the hardware."""


def main() -> None:
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for folder in map(Path, sys.argv[1:]):
        for kind, model, minutes in systems(folder):
            times[folder.name, model, kind].append(minutes)
    for kind, base in PAIRS:
        ratios: dict[str, list[float]] = defaultdict(list)
        for (clone, model, of), found in times.items():
            if of == kind and (beside := times.get((clone, model, base))):
                ratios[model].append(median(beside) / median(found))
        means = {model: geometric_mean(each) for model, each in sorted(ratios.items())}
        if means:
            told = ", ".join(f"{model} {ratio:.2f}" for model, ratio in means.items())
            print(f"{kind} against {base}: {geometric_mean(means.values()):.3f} ({told})")


def systems(folder: Path) -> Iterator[tuple[str, str, float]]:
    """Type, model and minutes of each system of eight accelerators in this round."""
    names = git(folder, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    kinds = {found.groups(): kind_of(json.loads(shown(folder, name)))
             for name in names if (found := re.fullmatch(SYSTEM, name)) and found[1] != OWN_WAY}  # fmt: skip
    runs = defaultdict(list)
    for name in names:
        if (found := re.fullmatch(RUN, name)) and kinds.get((found[1], found[2])):
            runs[found.groups()].append(name)
    for (who, system, model), files in runs.items():
        took = sorted(minutes for name in files if (minutes := minutes_of(shown(folder, name))) is not None)
        if len(took) >= FEWEST:
            yield kinds[who, system], model, fmean(took[1:-1])


def kind_of(system: dict[str, str]) -> str:
    number = [str(system.get(name) or 0) for name in ("number_of_nodes", "accelerators_per_node")]
    if not all(map(str.isdigit, number)) or int(number[0]) * int(number[1]) != ACCELERATORS:
        return ""
    return next((kind for kind, mark in TYPES.items() if mark in system["accelerator_model_name"]), "")


def minutes_of(log: str) -> float | None:
    """None of a run that did not reach its target."""
    events = {event["key"]: event for event in map(json.loads, EVENT.findall(log))}
    stop = events.get("run_stop")
    if stop is None or "run_start" not in events or stop["metadata"].get("status") != "success":
        return None
    return float(stop["time_ms"] - events["run_start"]["time_ms"]) / 60_000.0


def shown(folder: Path, name: str) -> str:
    return git(folder, "show", f"HEAD:{name}")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True).stdout.decode(
        errors="replace"
    )


if __name__ == "__main__":
    main()
