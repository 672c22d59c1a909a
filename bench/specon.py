"""SpeCon's set-up on two nodes: real short models share cores, with migration and without.

    python bench/specon.py --repeats 3               # two nodes of this machine
    python bench/specon.py --repeats 3 --kubelets    # two real kubelets with a core each

Each repeat runs examples/specon.yaml under `spread` and under `migration`, in turns that begin with the other one each
time. It prints each job's completion, the mean and the last end, as medians over repeats, and who got slower.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from schedule_process import HEADWAY, prepared, started

import headway
from headway.lab import Lab
from headway.record.log import read
from headway.record.metrics import Tally

FILE = Path(__file__).parents[1] / "examples" / "specon.yaml"
POLICIES = {"spread": [], "migration": ["--set", "cool_down=20", "--set", "restart=5"]}


def here(policy: str, folder: Path) -> Path:
    """Trains the file's jobs on two nodes of this machine; returns the log."""
    command = [*HEADWAY, "run", str(FILE), "--policy", policy, *POLICIES[policy]]
    subprocess.run([*command, "--state", str(folder / "state"), "--json"], capture_output=True, check=True)
    return folder / "state" / "run.log"


def on_kubelets(lab: Lab, policy: str, folder: Path) -> Path:
    """Trains them in pods of the lab, in a namespace of its own; returns the log."""
    namespace = f"{policy}-{folder.name.lower().replace('_', '-')}".rstrip("-")
    lab.create_namespace(namespace)
    source = Path(headway.__path__[0]).parent
    template = lab.pod_template(paths=[source, FILE.parent])
    shared = str(lab.shared / namespace)
    options = ["--policy", policy, *POLICIES[policy], "--measure", "off", "--checkpoints", shared]
    process, said = started(lab, namespace, folder, template, *options)
    submit = ["submit", str(FILE), "--directory", ".", "--kubeconfig", str(lab.kubeconfig), "--namespace", namespace]
    done = subprocess.run([*HEADWAY, *submit, "--wait"], capture_output=True, text=True, check=False)
    process.terminate()
    process.wait(60)
    if done.returncode != 0:
        raise SystemExit(f"specon: {policy} did not end well: {done.stderr or done.stdout}\n{said.read_text()[-2000:]}")
    return folder / "run.log"


def completions(log: Path) -> dict[str, float]:
    """By job: seconds from its submission to its end; `moves` has how often one was moved."""
    tally = Tally(courses=True)
    for line in read(log):
        tally(line)
    courses = list(tally.courses.values())
    first = min(course.job.submit for course in courses)
    found = {course.job.id.rpartition("/")[2]: (course.ended or math.nan) - course.job.submit for course in courses}
    return {
        **found, "mean": statistics.fmean(found.values()),
        "last end": max((course.ended or math.nan) - first for course in courses),
        "moves": float(sum(course.stops for course in courses)),
    }  # fmt: skip


def compared(repeats: int, run: Callable[[str, Path], Path]) -> dict[str, list[dict[str, float]]]:
    """By policy: what each repeat gave. The policies take turns at being the first."""
    runs: dict[str, list[dict[str, float]]] = {policy: [] for policy in POLICIES}
    for repeat in range(repeats):
        for policy in list(POLICIES) if repeat % 2 == 0 else list(reversed(POLICIES)):
            with tempfile.TemporaryDirectory() as folder:
                one = completions(run(policy, Path(folder)))
            runs[policy].append(one)
            load = os.getloadavg()[0]
            told = f"mean {one['mean']:.1f} s, last end {one['last end']:.1f} s, moves {one['moves']:.0f}"
            print(f"repeat {repeat + 1}, {policy}: {told}; load {load:.1f}", flush=True)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kubelets", action="store_true", help="in pods of two real kubelets with a core each")
    chosen = parser.parse_args()
    if chosen.kubelets:
        with prepared("specon", kubelets=2, kubelet_cores=1) as (lab, _):
            runs = compared(chosen.repeats, lambda policy, folder: on_kubelets(lab, policy, folder))
    else:
        runs = compared(chosen.repeats, here)
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
