"""Runs ElasticFlow's two traces in our simulator and compares with the results of its own simulator.

    python bench/elasticflow.py [--traces DIR] [--trace NAME] [--variants N] [--theirs DIR] [--jobs N]

The jobs, deadlines and throughput tables are the same; remaining times are true. Deadlines met are over all submitted
jobs, completion times over the admitted ones.

- `its own rules` (`elasticflow_slots.py`): jobs are admitted, sized and paused as in ElasticFlow's simulator; `no
  pauses`: without the seconds that every decision costs every job there.
- `elasticflow`: our policy. It rejects no job, decides at every event, and decisions cost nothing.

`--theirs` is a folder of `<trace>.csv`, the `job.csv` that ElasticFlow's simulator writes: `--jobs` then lists jobs
that differ, with the reason.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from elasticflow_slots import Pauses, Slots, speed_at

from headway.compare.scenario import Scenario as Case
from headway.core.job import Job, JobId
from headway.core.node import Nodes
from headway.core.policy import Policy
from headway.core.states import State
from headway.cycle.loop import Decided, run
from headway.estimates.plain_books import OracleBook
from headway.experiment.case import Cell, RunSize
from headway.experiment.published import PEER, MeasuredSpeeds
from headway.policies.baselines.elasticflow import ElasticFlow
from headway.sim.cluster import SimCluster
from headway.sim.speed import Speed

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))


@dataclass(frozen=True)
class Theirs:
    met: int
    let_in: int
    jct: float
    makespan: float
    slot: float


THEIRS = {
    "elasticVpollux_e": Theirs(142, 145, 74_736, 444_347, 60.0),
    "philly_103959": Theirs(795, 795, 23_100, 7_911_263, 240.0),
}
"""As ElasticFlow's simulator prints it. `met` is its count of jobs that were let in and in time."""


def tables_of(case: Case) -> dict[str, Mapping[int, float]]:
    """Steps per second by model and number of GPUs."""
    speed = case.world(case.trace, 0).speed
    assert isinstance(speed, Speed)
    return {
        model: profile.form.points
        for model, profile in speed.profiles.items()
        if isinstance(profile.form, MeasuredSpeeds)
    }


def by_steps(case: Case) -> Case:
    """The jobs with the duration of their steps, which differs from the trace for nine jobs."""
    tables = tables_of(case)
    jobs = tuple(
        replace(job, seconds=(job.steps or 0) / speed_at(tables[job.model], job.roles[0].replicas))
        for job in case.trace.jobs
    )
    return replace(case, trace=replace(case.trace, jobs=jobs, truth=None))


def variants(case: Case, slot: float) -> dict[str, Policy]:
    gpus = sum(dict(node.capacity)["gpu"] for node in case.nodes)
    return {
        "its own rules": Slots(tables_of(case), gpus, slot),
        "its own rules, no pauses": Slots(tables_of(case), gpus, slot, pauses=False),
        "elasticflow": ElasticFlow(),
    }


def simulate(case: Case, policy: Policy) -> dict[JobId, float]:
    """Returns the end of each finished job."""
    world = case.world(case.trace, 0)
    if isinstance(policy, Slots):
        world = replace(world, costs=Pauses(policy=policy))
    sim = SimCluster(Nodes.of(case.nodes), case.trace.jobs, world)
    ends: dict[JobId, float] = {}

    def observe(decided: Decided) -> None:
        snapshot = decided.snapshot
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                ends[snapshot.jobs.job(row).id] = float(snapshot.jobs.since[row])

    run(sim, policy, OracleBook(sim.truth, sim.speed_at), observe)
    return ends


def in_time(job: Job, ends: Mapping[JobId, float], slack: float = 0.0) -> bool:
    return job.id in ends and ends[job.id] <= (job.deadline or 0.0) + slack + 1e-6


def show(name: str, label: str, case: Case, ends: Mapping[JobId, float], seconds: float) -> None:
    peer, jobs = THEIRS[name], case.trace.jobs
    met = sum(in_time(job, ends) for job in jobs)
    jct = sum(ends[job.id] - job.submit for job in jobs if job.id in ends) / len(ends)
    last = max(ends.values()) - jobs[0].submit
    print(f"{name:17} {label:25} {met:4} {peer.met:4} {met / peer.met:7.4f} {len(ends):4} {peer.let_in:4}"
          f" {jct:8.0f} {peer.jct:8.0f} {jct / peer.jct:7.4f} {last:9.0f} {peer.makespan:9.0f}"
          f" {last / peer.makespan:7.4f} {seconds:6.1f}", flush=True)  # fmt: skip


def show_jobs(case: Case, ends: Mapping[JobId, float], path: Path, slot: float, count: int) -> None:
    """Prints the jobs that meet their deadline on one side only, and why."""
    with path.open(newline="") as file:
        theirs = {JobId(row["job_id"]): float(row["end_time"]) for row in csv.DictReader(file)}
    tables, reasons, lines = tables_of(case), Counter[str](), list[str]()
    for job in case.trace.jobs:
        ours, others = in_time(job, ends), in_time(job, theirs, slot)
        if ours == others:
            continue
        alone = (job.steps or 0) / max(tables[job.model].values()) <= (job.deadline or 0.0) - job.submit
        if job.id in theirs and job.id in ends:
            reason = "let in on both sides, late on one: sizes came out otherwise"
        elif not alone:
            reason = "too late on any number of GPUs"
        else:
            reason = "turned away there only" if job.id not in theirs else "turned away here only"
        reasons[reason] += 1
        lines.append(f"    job {job.id:4} submitted {job.submit:8.0f}, {(job.deadline or 0) - job.submit:7.0f} s to its"
                     f" deadline, {job.model}: in time {'here' if ours else 'there'}; {reason}")  # fmt: skip
    print("    " + "; ".join(f"{number} {reason}" for reason, number in reasons.items()))
    print("\n".join(lines[:count]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--trace", default="")
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--theirs", type=Path, default=Path("nowhere"))
    parser.add_argument("--jobs", type=int, default=0)
    args = parser.parse_args()
    os.environ["HEADWAY_TRACES"] = str(args.traces)
    print(f"{'trace':17} {'':25} {'met':>4} {'th.':>4} {'ratio':>7} {'in':>4} {'th.':>4} {'jct':>8} {'theirs':>8}"
          f" {'ratio':>7} {'last end':>9} {'theirs':>9} {'ratio':>7} {'wall s':>6}")  # fmt: skip
    for name, peer in THEIRS.items():
        if args.trace not in name:
            continue
        case = by_steps(PEER.make(Cell("as published", name), 0, RunSize(0, (0,))))
        for label, policy in list(variants(case, peer.slot).items())[: args.variants]:
            began = time.perf_counter()
            ends = simulate(case, policy)
            show(name, label, case, ends, time.perf_counter() - began)
            if (path := args.theirs / f"{name}.csv").exists():
                show_jobs(case, ends, path, peer.slot, args.jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
