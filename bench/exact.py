"""Our completion times next to those that other simulators print for the same traces.

    python bench/exact.py [--traces DIR]

Without costs, with an oracle's estimates and one-GPU replicas, `fifo`, `first-fit`, `sjf` and `srtf` are exact: the
difference must be zero to the second. `srsf` and `las` depend on details of ties and thresholds; they are shown for
information.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from dataclasses import dataclass
from pathlib import Path

from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.policy import Policy
from headway.cycle.loop import run
from headway.estimates.plain_books import OracleBook
from headway.policies.baselines.las import Las
from headway.policies.registry import POLICIES
from headway.record.lines import Head
from headway.record.log import LogWriter
from headway.record.metrics import Tally
from headway.sim.cluster import SimCluster, World

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))


@dataclass(frozen=True)
class Case:
    trace: str
    nodes: int
    gpus: int
    policy: str
    peer: str
    jct: float
    wait: float | None = None
    makespan: float | None = None
    exact: bool = True
    second: float = 0.0


def _cases() -> list[Case]:
    small, large, sixty = "common/philly_ee9e8c_480.csv", "common/philly_all_5000.csv", "tiresias/60_job.csv"
    return [
        Case(small, 32, 4, "fifo", "Tiresias fifo", 165956.3, 55746.3, 3315001),
        Case(small, 32, 4, "first-fit", "Tiresias fjf", 145619.8, 35409.8, 3299857),
        Case(small, 32, 4, "sjf", "PAI SJF", 128486.52, 18276.58, 3356673),
        Case(small, 32, 4, "srtf", "Tiresias shortest", 124562.5, 14352.5, 3421054),
        Case(small, 32, 4, "srsf", "Tiresias shortest-gpu", 123674.5, 13464.6, 3403736),
        Case(small, 32, 4, "las", "Tiresias dlas-gpu", 134629.4, 24419.5, 3285083, exact=False, second=7200),
        Case(large, 30, 8, "fifo", "Tiresias fifo", 45806.4, 38328.3, 897572),
        Case(large, 30, 8, "srtf", "Tiresias shortest", 8692.3, 1214.3, 987251),
        Case(large, 30, 8, "las", "Tiresias dlas-gpu", 8540.8, 1062.7, 838850, exact=False, second=7200),
        Case(sixty, 4, 4, "fifo", "Tiresias fifo", 200.8, 22.4, 3335),
        Case(sixty, 4, 4, "first-fit", "Tiresias fjf", 190.7, 12.3, 3271),
        Case(sixty, 4, 4, "srtf", "Tiresias shortest", 192.1),
        Case(sixty, 4, 4, "srsf", "Tiresias shortest-gpu", 195.9, exact=False),
        Case(sixty, 4, 4, "las", "Tiresias dlas-gpu", 190.7, exact=False, second=7200),
    ]


def read(path: Path) -> list[Job]:
    """A trace in Tiresias's form: every GPU a replica."""
    roles: dict[int, tuple[Role, ...]] = {}
    jobs = []
    with path.open() as file:
        for line in csv.DictReader(file):
            gpus = int(line["num_gpu"])
            one = Role(name="worker", replicas=gpus, min=gpus, max=gpus, request=(("gpu", 1),))
            role = roles.setdefault(gpus, (one,))
            submit, seconds = float(line["submit_time"]), float(line["duration"])
            jobs.append(Job(id=JobId(line["job_id"]), roles=role, submit=submit, seconds=seconds))
    return jobs


def simulate(jobs: list[Job], nodes: Nodes, policy: Policy) -> tuple[float, float, float]:
    sim = SimCluster(nodes, jobs, World(samples=False))
    tally = Tally()
    writer = LogWriter(None, Head("sim", "", "oracle"), tally)
    run(sim, policy, OracleBook(sim.truth), lambda d: writer.cycle(d.snapshot, d.plan, d.refusals))
    writer.end(sim.now, sim.board.unfinished)
    result = tally.result()
    assert result["unfinished"] == 0
    return result["jct"]["mean"], result["wait"]["mean"], result["makespan"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    traces = parser.parse_args().traces
    wrong = 0
    print(f"{'trace':30} {'policy':10} {'peer':22} {'jct':>10} {'peer jct':>10} {'ratio':>8} {'verdict':10} wall s")
    for case in _cases():
        nodes = Nodes.of(Node(name=f"n{i}", capacity=(("gpu", case.gpus),)) for i in range(case.nodes))
        policy: Policy = Las(second=case.second) if case.second else POLICIES[case.policy]()
        began = time.perf_counter()
        ours = simulate(read(traces / case.trace), nodes, policy)
        seconds = time.perf_counter() - began
        same = all(abs(a - b) < 0.06 for a, b in zip(ours, (case.jct, case.wait, case.makespan), strict=True) if b)
        verdict = "exact" if same else ("WRONG" if case.exact else f"{ours[0] - case.jct:+.1f} s")
        wrong += case.exact and not same
        print(f"{case.trace:30} {case.policy:10} {case.peer:22} {ours[0]:10.1f} {case.jct:10.1f}"
              f" {ours[0] / case.jct:8.4f} {verdict:10} {seconds:.2f}", flush=True)  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
