"""Compares Tiresias and Optimus in the Pollux simulator with our `tiresias` and `optimus` in our simulator.

    python bench/pollux.py [--policies tiresias,optimus] [--loads 0.5,1.0,1.5,2.0] [--workloads 1,2,3,4,5,6]
                           [--traces DIR] [--extra DIR] [--jobs N] [--rules all|NAME,…]

Needs `pollux/` of the published traces: workloads, profiles, and the authors' own results with the completion time of
every job. Same jobs, 16 nodes of four T4, speeds from the same measurements (`pollux_profiles.py`). `--extra` names the
simulator's folder in Pollux's artefact, for workloads 7 and 8.

`--rules` turns off one of the rules by which that simulator differs from ours, and `all` each of them in turn. The
difference of the results is what that rule explains. `--jobs` lists the jobs that differ most.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pollux_profiles import EPOCHS, Model, Work, packed

from headway.core.estimates import Beliefs, Counts
from headway.core.job import Job, JobId, Role
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.cycle.loop import Decided, run
from headway.estimates.plain_books import OracleBook
from headway.policies.baselines.las import Las
from headway.policies.baselines.optimus import Optimus
from headway.policies.baselines.tiresias import Tiresias
from headway.policies.steps.order import Key, Rows
from headway.policies.wrappers.rounds import in_rounds
from headway.sim.cluster import SimCluster
from headway.sim.world import Costs, World

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
ROUND_SECONDS, RESTART_SECONDS, FIRST_QUEUE = 60.0, 30.0, 16 * 3600.0
FOLDERS = {"0.5": "workloads-0.5", "1.0": "workloads", "1.5": "workloads-1.5", "2.0": "workloads-2.0"}


@dataclass(frozen=True)
class Rules:
    """The rules by which that simulator differs from our simulator and policies. All are on by default."""

    rounds: bool = True
    """Decisions at whole minutes only."""
    restart: bool = True
    """Thirty seconds without training after every change."""
    order: bool = True
    """tiresias: inside a queue by arrival, and the emptiest nodes first; otherwise `las`, where the running stay and
    nodes are filled. optimus: a change is a stop and a start; otherwise replicas are added and taken away."""
    service: bool = True
    """tiresias: the seconds of a start count as service."""
    falls: bool = True
    """tiresias: the second queue in the order in which jobs fell into it, which a policy without memory cannot know."""
    profile: bool = True
    """Speed depends on the placement; otherwise every gang is as fast as if it were packed."""
    whole: bool = True
    """Every epoch is rounded to whole seconds."""
    epochs: bool = True
    """optimus: time left is known by whole epochs of the recorded training; otherwise it is the truth."""


@dataclass
class Setup:
    jobs: list[Job]
    works: Mapping[JobId, Work]
    rules: Rules

    def begin(self, nodes: Nodes) -> SimCluster:
        pause = RESTART_SECONDS if self.rules.restart else 0.0
        world = World(samples=False, speed=self._speed, costs=Costs(start=pause, scale=pause))
        self.sim = SimCluster(nodes, self.jobs, world)
        return self.sim

    def _speed(self, job: Job, placement: Placement, *_: object) -> float:
        """The speed at which the rest of the training takes as long as it does on this placement."""
        work, row = self.works[job.id], self.sim.board.row(job.id)
        assert row is not None
        spots = tuple(Counter(placement.nodes[0]).values())
        seconds = work.go_on(spots if self.rules.profile else packed(sum(spots)), self._trained(row))
        return self.sim.work.left_at(row, self.sim.now) / max(seconds, 1e-9)

    def _trained(self, row: int) -> float:
        work, now = self.sim.work, self.sim.now
        return float(work.trained[row]) + (now - float(work.at[row]) if work.rate[row] > 0 else 0.0)

    def believed_speed(self, job: Job, counts: Counts) -> float:
        work = self.works[job.id]
        if not self.rules.epochs:
            return float(work.epochs(packed(work.replicas)).sum() / work.epochs(packed(counts[0])).sum())
        return work.guessed(work.replicas) / work.guessed(counts[0])

    def book(self) -> OracleBook:
        """Time left for Optimus: that of the recorded training at its last whole epoch."""

        def told(snapshot: Snapshot) -> Beliefs:
            left = np.zeros(snapshot.jobs.count)
            for row in (*snapshot.jobs.running().tolist(), *snapshot.jobs.waiting().tolist()):
                work, placement = self.works[snapshot.jobs.job(row).id], snapshot.placements.get(row)
                size = work.replicas if placement is None else placement.width()
                left[row] = work.iterations_left(self._trained(row)) * work.guessed(size)
            return Beliefs(left, np.full(len(left), snapshot.now), np.zeros(len(left), np.bool_))

        return OracleBook(told if self.rules.epochs else self.sim.truth, self.believed_speed)


def read(path: Path, models: Mapping[str, Model], policy: str, rules: Rules) -> Setup:
    jobs, works = [], {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            model, batch, name = models[row["application"]], int(row["batch_size"]), JobId(row["name"])
            asked = least = most = int(row["num_replicas"])
            if policy == "optimus":
                most = 1 if model.name == "ncf" else max(1, batch // model.least_per_replica)
                asked, least = min(asked, most), 1
            work = works[name] = Work(model, batch, asked, rules.whole)
            role = Role(name="worker", replicas=asked, min=least, max=most, request=(("gpu", 1),))
            seconds = float(work.epochs(packed(asked)).sum())
            jobs.append(Job(id=name, roles=(role,), submit=float(row["time"]), seconds=seconds, model=model.name))
    return Setup(jobs, works, rules)


def policy_of(name: str, rules: Rules) -> Policy:
    pause = 0.0 if rules.rounds else ROUND_SECONDS  # or it would restart jobs at every event, for ever
    policy: Policy = Optimus(interval=pause, every=ROUND_SECONDS, restarts=rules.order)
    if name == "tiresias":
        counted = RESTART_SECONDS if rules.restart and rules.service else 0.0
        tiresias = Tiresias(start_seconds=counted)
        policy = (FallsRemembered(tiresias) if rules.falls else tiresias) if rules.order else Las(threshold=FIRST_QUEUE)
    return in_rounds(policy, ROUND_SECONDS if rules.rounds else 0.0)


class FallsRemembered:
    """`Tiresias` that also remembers the order in which jobs fell into the second queue, which no snapshot has."""

    def __init__(self, policy: Tiresias) -> None:
        self.policy = policy
        self.fallen: dict[JobId, int] = {}

    def __call__(self, snapshot: Snapshot) -> Plan:
        jobs = snapshot.jobs
        rows = np.sort(np.concatenate([jobs.running(), jobs.waiting()]))
        for row in rows[self.policy.fallen(snapshot, rows)].tolist():
            self.fallen.setdefault(jobs.job(row).id, len(self.fallen))

        def place_in_queue(rows: Rows) -> Key:
            return np.array([self.fallen.get(jobs.job(row).id, row) for row in rows.tolist()], np.float64)

        plan = self.policy.plan(snapshot, place_in_queue)
        return Plan(plan.decisions, min(plan.until, snapshot.now + ROUND_SECONDS) if len(rows) else plan.until)


def simulate(setup: Setup, policy: str) -> dict[str, float]:
    """Completion times of all jobs, from submission."""
    nodes = Nodes.of(Node(name=f"n{number:02d}", capacity=(("gpu", 4),)) for number in range(16))
    sim = setup.begin(nodes)
    ends: dict[str, float] = {}

    def observe(decided: Decided) -> None:
        assert not decided.refusals
        snapshot = decided.snapshot
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                job = snapshot.jobs.job(row)
                ends[job.id] = float(snapshot.jobs.since[row]) - job.submit

    run(sim, policy_of(policy, setup.rules), setup.book(), observe)
    assert len(ends) == len(setup.jobs)
    return ends


@dataclass(frozen=True)
class Compared:
    setup: Setup
    ours: Mapping[str, float]
    theirs: Mapping[str, float]

    @property
    def means(self) -> tuple[float, float]:
        return sum(self.ours.values()) / len(self.ours), sum(self.theirs.values()) / len(self.theirs)

    @property
    def makespans(self) -> tuple[float, float]:
        """The end of the last job."""
        ours, theirs = (max(job.submit + ends[job.id] for job in self.setup.jobs) for ends in (self.ours, self.theirs))
        return ours, theirs

    def median_difference(self) -> float:
        return float(np.median([abs(self.ours[name] / jct - 1) for name, jct in self.theirs.items()]))

    def within(self, share: float = 0.03, seconds: float = 0.0) -> float:
        """Share of jobs whose completion time differs by no more than this."""
        return float(np.mean([abs(self.ours[n] - jct) <= max(share * jct, seconds) for n, jct in self.theirs.items()]))


def compare(args: argparse.Namespace, policy: str, load: str, number: int, rules: Rules) -> Compared | None:
    models = {name: Model(name, args.traces / "pollux" / "profiles" / name) for name in EPOCHS}
    for base in (args.traces / "pollux", args.extra):
        path = base / FOLDERS[load] / f"workload-{number}.csv"
        if path.exists():
            setup = read(path, models, policy, rules)
            summary = args.traces / "pollux" / "results-jobload" / f"{policy}-{load}" / "summary.json"
            theirs = json.loads(summary.read_text())["jcts"][path.stem]
            return Compared(setup, simulate(setup, policy), theirs)
    return None


def show(name: str, found: Compared, seconds: float) -> None:
    (ours, theirs), (end, their_end) = found.means, found.makespans
    print(f"{name:38} {ours:9.1f} {theirs:9.1f} {ours / theirs:7.4f} {end:9.0f} {their_end:9.0f} {end / their_end:7.4f}"
          f" {100 * found.within():4.0f} % {100 * found.median_difference():6.2f} % {seconds:6.1f}",
          flush=True)  # fmt: skip


def show_jobs(found: Compared, count: int) -> None:
    by_name = {job.id: job for job in found.setup.jobs}
    worst = sorted(found.theirs, key=lambda name: -abs(found.ours[name] - found.theirs[name]))[:count]
    for name in worst:
        job = by_name[JobId(name)]
        ours, theirs = found.ours[name], found.theirs[name]
        print(f"    {name:18} submitted {job.submit:6.0f}, {job.roles[0].replicas:2} replicas:"
              f" {ours:9.1f} against {theirs:9.1f}, {ours - theirs:+9.1f} s ({ours / theirs:.3f})")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--extra", type=Path, default=Path("nowhere"))
    parser.add_argument("--policies", default="tiresias,optimus")
    parser.add_argument("--loads", default="0.5,1.0,1.5,2.0")
    parser.add_argument("--workloads", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--rules", default="")
    args = parser.parse_args()
    off = list(Rules.__dataclass_fields__) if args.rules == "all" else [name for name in args.rules.split(",") if name]
    variants = {"": Rules()} | {f" no {name}": replace(Rules(), **{name: False}) for name in off}
    print(f"{'':38} {'jct':>9} {'theirs':>9} {'ratio':>7} {'last end':>9} {'theirs':>9} {'ratio':>7} {'±3 %':>6}"
          f" {'median':>8} {'wall s':>6}")  # fmt: skip
    for policy in args.policies.split(","):
        for load in args.loads.split(","):
            for number in map(int, args.workloads.split(",")):
                for name, rules in variants.items():
                    began = time.perf_counter()
                    found = compare(args, policy, load, number, rules)
                    if found is not None:
                        show(f"{policy} {load} workload-{number}{name}", found, time.perf_counter() - began)
                        show_jobs(found, args.jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
