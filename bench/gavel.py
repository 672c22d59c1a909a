"""Headway on Gavel's two traces for a cluster of three GPU types, beside what Gavel's simulator prints.

    python bench/gavel.py [--traces DIR] [--theirs DIR] [--jobs N]

8 V100, 16 P100 and 24 K80, of which a gang uses one type only; speeds and steps as Gavel published them, through
`headway`'s own reader (`Trace.seconds_on`). The output has the results of Gavel's simulator next to ours. `--theirs` is
a folder of files `<policy>-<trace>.csv` with columns `job` and `seconds`: the completion time of each job in Gavel.

- `headway` is our default policy. With progress only it is told no seconds: jobs have total steps and report each 30 s.
  All-knowing, it has true seconds on every type. Starts and saves cost nothing, as in Gavel, or 30 s and 10 s. Beside
  it is the Gavel policy with the best mean. Last ends vary: settings that make no difference move them by 3 %.
- `gavel-...` are our policies of these names, which know the true seconds, too.
- `fastest` is Gavel's `fifo_perf`: all jobs in order of arrival, each on the fastest type with room. It assigns types
  again when jobs come or go, but not within 1,920 s of the last time; in rounds of 360 s.
- `booked` is Gavel's `fifo` with its mistakes: it draws a type at random and books another, mostly the V100s, even if
  there is no room. Its rounds then share the V100s among all jobs booked there, while other types are idle.
- `fifo` is our plain one, which ignores types (gangs go where they fit most tightly) and decides at every event.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headway.beliefs.books import make_book
from headway.core.draft import Draft
from headway.core.job import Job, JobId
from headway.core.node import Node, Nodes
from headway.core.placement import Placement
from headway.core.plan import Plan
from headway.core.policy import Policy
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.cycle.loop import Decided, run
from headway.policies.baselines.fifo import fifo
from headway.policies.baselines.gavel_finish_time import gavel_finish_time
from headway.policies.baselines.gavel_makespan import gavel_makespan
from headway.policies.baselines.gavel_max_min import gavel_max_min
from headway.policies.headway import Headway
from headway.policies.wrappers.rounds import in_rounds
from headway.sim.cluster import SimCluster
from headway.sim.speed import Speed
from headway.sim.world import Costs, Reports, World
from headway.workload.formats.gavel import read
from headway.workload.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
TYPES = {"v100": 8, "p100": 16, "k80": 24}
ROUND_SECONDS, DEAL_SECONDS = 360.0, 1920.0
THEIRS = {
    ("max_min_fairness", "fifo"): (9.97, 54.59), ("max_min_fairness", "fifo_perf"): (5.42, 20.09),
    ("minimize_makespan", "fifo"): (58.76, 76.17), ("minimize_makespan", "fifo_perf"): (11.18, 25.19),
    ("max_min_fairness", "max_min_fairness_perf"): (4.06, 17.76),
    ("max_min_fairness", "min_total_duration_perf"): (6.38, 17.09),
    ("minimize_makespan", "max_min_fairness_perf"): (9.91, 19.03),
    ("minimize_makespan", "min_total_duration_perf"): (17.72, 17.98),
    ("max_min_fairness", "finish_time_fairness_perf"): (4.17, 18.05),
    ("minimize_makespan", "finish_time_fairness_perf"): (10.09, 19.56),
}  # fmt: skip
"""Trace and policy to mean completion time and makespan in hours, as Gavel's simulator prints them."""


class Fastest:
    """Gavel's `fifo_perf`. It remembers its last assignment and when it was, as Gavel does."""

    def __init__(self, trace: Trace, *, pause: float = DEAL_SECONDS) -> None:
        self.seconds_on = trace.seconds_on
        self.pause = pause
        self.dealt_at = 0.0
        self.dealt: dict[JobId, str] = {}
        self.known: set[JobId] = set()

    def __call__(self, snapshot: Snapshot) -> Plan:
        jobs, now = snapshot.jobs, snapshot.now
        rows = np.sort(np.concatenate([jobs.running(), jobs.waiting()])).tolist()
        present = {jobs.job(row).id for row in rows}
        if present != self.known:
            if self.dealt_at and now - self.dealt_at < self.pause:
                return Plan((), self.dealt_at + self.pause)
            self._deal(snapshot, rows)
        draft = Draft(snapshot)
        moved = [row for row in jobs.running().tolist() if self.dealt.get(jobs.job(row).id) != _type(snapshot, row)]
        for row in moved:
            draft.stop(row)
        for row in [] if moved else jobs.waiting().tolist():
            kind = self.dealt.get(jobs.job(row).id)
            if kind is not None:
                draft.start(row, Placement(((list(TYPES).index(kind),) * int(jobs.width[row]),)))
        return draft.plan()

    def _deal(self, snapshot: Snapshot, rows: list[int]) -> None:
        room, self.dealt = dict(TYPES), {}
        for row in rows:
            job = snapshot.jobs.job(row)
            types = [kind for kind in sorted(room) if room[kind] >= job.replicas and kind in self.seconds_on[job.id]]
            if not types:
                break
            kind = self.dealt[job.id] = min(types, key=self.seconds_on[job.id].__getitem__)
            room[kind] -= job.replicas
        self.dealt_at, self.known = snapshot.now, {snapshot.jobs.job(row).id for row in rows}


def _type(snapshot: Snapshot, row: int) -> str:
    return list(TYPES)[min(snapshot.placements[row].used_nodes())]


class Booked:
    """Gavel's `fifo`. A job is booked on one type for ever, and the round shares each type among its jobs.

    When a job ends, the next in the queue takes its type if lower-numbered jobs leave enough there. The others in the
    queue are booked as long as some type has room for them: a type is drawn, but the last in the list is booked. When
    that is full, the drawn type is removed from the list.
    """

    def __init__(self, trace: Trace) -> None:
        self.seconds_on = trace.seconds_on
        self.chance = random.Random(0)
        self.dealt_at = 0.0
        self.booked: dict[JobId, str] = {}
        self.known: set[JobId] = set()
        self.had: dict[JobId, float] = {}
        """Seconds trained when it was last dealt."""
        self.owed: dict[JobId, float] = {}

    def __call__(self, snapshot: Snapshot) -> Plan:
        jobs, now = snapshot.jobs, snapshot.now
        rows = np.sort(np.concatenate([jobs.running(), jobs.waiting()])).tolist()
        present = {jobs.job(row).id: row for row in rows}
        if set(present) != self.known and (not self.dealt_at or now - self.dealt_at >= DEAL_SECONDS):
            self._deal(snapshot, present)
        draft = Draft(snapshot)
        starting = [row for kind in TYPES for row in self._round(draft, kind, present)]
        if not draft.decided_rows():  # what is stopped is gone at once, and the rest of the round is dealt then
            for row in starting:
                kind = self.booked[jobs.job(row).id]
                draft.start(row, Placement(((list(TYPES).index(kind),) * int(jobs.width[row]),)))
        if rows:
            draft.wake(now + ROUND_SECONDS)
        return draft.plan()

    def _round(self, draft: Draft, kind: str, present: Mapping[JobId, int]) -> list[int]:
        """Jobs with the least time since the last assignment come first. Stops the others; returns those to start."""
        jobs, room, starting = draft.snapshot.jobs, TYPES[kind], []
        mine = [name for name, booked in self.booked.items() if booked == kind and name in present]
        trained = {name: self._trained(draft.snapshot, present[name]) - self.had.get(name, 0.0) for name in mine}
        for name in sorted(mine, key=lambda name: (round(trained[name], 6), -self.owed.get(name, 0.0), int(name))):
            row, runs = present[name], present[name] in draft.snapshot.placements
            fits = int(jobs.width[row]) <= room
            room -= int(jobs.width[row]) if fits else 0
            if runs and not fits:
                draft.stop(row)
            elif fits and not runs:
                starting.append(row)
        return starting

    def _deal(self, snapshot: Snapshot, present: Mapping[JobId, int]) -> None:
        width = {name: int(snapshot.jobs.width[row]) for name, row in present.items()}
        for name in present:
            had = self._trained(snapshot, present[name])
            due = snapshot.now - self.dealt_at if name in self.booked else 0.0
            self.owed[name] = self.owed.get(name, 0.0) + due - (had - self.had.get(name, 0.0))
            self.had[name] = had
        room, line = dict(TYPES), [name for name in present if name not in self.booked]
        for name in sorted(self.booked, key=int):
            kind = self.booked[name]
            if name in present:
                room[kind] -= width[name]
                continue
            del self.booked[name]
            if line and width[line[0]] <= room[kind] and kind in self.seconds_on[line[0]]:
                room[kind] -= width[line[0]]
                self.booked[line.pop(0)] = kind
        types = sorted(kind for kind in room if room[kind] > 0)
        while line and types:
            name = line.pop(0)
            fits = [number for number, kind in enumerate(types) if room[kind] >= width[name]]
            if not fits:
                break
            drawn, kind = fits[self.chance.randrange(len(fits))], types[-1]
            if kind in self.seconds_on[name]:
                self.booked[name] = kind
                room[kind] -= width[name]
                if room[kind] == 0:
                    types.pop(drawn)
        self.dealt_at, self.known = snapshot.now, set(present)

    def _trained(self, snapshot: Snapshot, row: int) -> float:
        """In rounds of whole steps, which take a little less than a round: it decides between jobs of equal rounds."""
        jobs, job = snapshot.jobs, snapshot.jobs.job(row)
        kind = self.booked.get(job.id)
        if kind is None:
            return 0.0
        seconds = float(jobs.attained[row])
        seconds += snapshot.now - float(jobs.since[row]) if row in snapshot.placements else 0.0
        speed = (job.steps or 0) / self.seconds_on[job.id][kind]
        return round(seconds / ROUND_SECONDS) * int(speed * ROUND_SECONDS) / speed


@dataclass(frozen=True)
class Entry:
    name: str
    peer: str
    policy: Policy
    types: tuple[str, ...] = tuple(TYPES)
    estimates: str = "none"
    costs: Costs = Costs()


def entries(trace: Trace) -> list[Entry]:
    best, costs = "max_min_fairness_perf", Costs(start=30.0, save=10.0)
    return [
        Entry("headway, progress only", best, Headway(), estimates="progress"),
        Entry("headway, all-knowing", best, Headway(), estimates="oracle"),
        Entry("headway, progress only, costs", best, Headway(), estimates="progress", costs=costs),
        Entry("headway, all-knowing, costs", best, Headway(), estimates="oracle", costs=costs),
        Entry("headway without types, progress", best, Headway(by_type=False), estimates="progress"),
        Entry("gavel-max-min", best, gavel_max_min(), estimates="oracle"),
        Entry("gavel-finish-time", "finish_time_fairness_perf", gavel_finish_time(), estimates="oracle"),
        Entry("gavel-makespan", "min_total_duration_perf", gavel_makespan(), estimates="oracle"),
        Entry("fastest", "fifo_perf", in_rounds(Fastest(trace), ROUND_SECONDS)),
        Entry("fastest, no pause between deals", "fifo_perf", in_rounds(Fastest(trace, pause=0.0), ROUND_SECONDS)),
        Entry("fastest, no rounds either", "fifo_perf", Fastest(trace, pause=0.0)),
        Entry("booked", "fifo", in_rounds(Booked(trace), ROUND_SECONDS)),
        Entry("fifo", "fifo", fifo),
        Entry("fifo on V100", "fifo", fifo, ("v100",)),
    ]


def simulate(trace: Trace, entry: Entry) -> tuple[dict[JobId, float], float]:
    """Completion times from submission, and the end of the last job."""
    nodes = Nodes.of(
        Node(name=kind, capacity=(("gpu", TYPES[kind] if kind in entry.types else 0),), accelerator=kind)
        for kind in TYPES
    )
    blind = entry.estimates == "progress"
    world = World(
        samples=blind, speed=Speed(seconds_on=trace.seconds_on), work=trace.work, costs=entry.costs,
        reports=Reports(seconds=30.0),
    )  # fmt: skip
    if blind:
        truth = {job.id: trace.work(job) or 0.0 for job in trace.jobs}
        world = replace(world, work=lambda job: truth[job.id])
    jobs = [replace(job, seconds=None) for job in trace.jobs] if blind else trace.jobs
    sim = SimCluster(nodes, jobs, world)
    ends: dict[JobId, float] = {}

    def observe(decided: Decided) -> None:
        snapshot = decided.snapshot
        assert not decided.refusals
        for row in snapshot.changed:
            if snapshot.jobs.state_of(row) is State.FINISHED:
                job = snapshot.jobs.job(row)
                ends[job.id] = float(snapshot.jobs.since[row]) - job.submit

    run(sim, entry.policy, make_book(entry.estimates, sim.truth, sim.speed_at, on_types=sim.speed_on), observe)
    assert len(ends) == len(trace.jobs)
    return ends, max(job.submit + ends[job.id] for job in trace.jobs)


def show_jobs(jobs: tuple[Job, ...], ours: Mapping[JobId, float], path: Path, count: int) -> None:
    with path.open(newline="") as file:
        theirs = {JobId(row["job"]): float(row["seconds"]) for row in csv.DictReader(file)}
    near = np.mean([abs(ours[job.id] / theirs[job.id] - 1) <= 0.03 for job in jobs])
    print(f"    {100 * near:.0f} % of the jobs within 3 % of {path.name}")
    for job in sorted(jobs, key=lambda job: -abs(ours[job.id] - theirs[job.id]))[:count]:
        print(f"    job {job.id:4} submitted {job.submit:7.0f}, {job.replicas} GPUs: {ours[job.id]:9.0f} against"
              f" {theirs[job.id]:9.0f}, {ours[job.id] - theirs[job.id]:+8.0f} s")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--theirs", type=Path, default=Path("nowhere"))
    parser.add_argument("--jobs", type=int, default=0)
    args = parser.parse_args()
    print(f"{'trace':20} {'ours':32} {'theirs':22} {'jct h':>7} {'theirs':>7} {'ratio':>7}"
          f" {'end h':>7} {'theirs':>7} {'ratio':>7}")  # fmt: skip
    for name in dict.fromkeys(trace for trace, _ in THEIRS):
        trace = read(args.traces / "gavel" / "traces" / "physical_cluster" / f"{name}.trace")
        for entry in entries(trace):
            ends, last = simulate(trace, entry)
            jct, (their_jct, their_end) = sum(ends.values()) / len(ends) / 3600, THEIRS[name, entry.peer]
            print(f"{name:20} {entry.name:32} {entry.peer:22} {jct:7.2f} {their_jct:7.2f} {jct / their_jct:7.4f}"
                  f" {last / 3600:7.2f} {their_end:7.2f} {last / 3600 / their_end:7.4f}", flush=True)  # fmt: skip
            path = args.theirs / f"{entry.peer}-{name}.csv"
            if path.exists():
                show_jobs(trace.jobs, ends, path, args.jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
