"""ElasticFlow's two traces with its measured throughputs, next to what its own simulator meets on them.

The traces are not part of Headway. HEADWAY_TRACES names the folder that has them; `headway traces` says which.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from headway.compare.scenario import Scenario
from headway.core.errors import UserError
from headway.core.job import Job
from headway.estimates.models.profiles import Layout, Profile
from headway.experiment.bound import most_met
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.experiment.deadline import FIGURES, FIXED, deadline_figures
from headway.experiment.trace_folder import trace_path
from headway.record.results import Outcome
from headway.sim.speed import Speed
from headway.sim.world import World
from headway.workload.cluster import open_cluster
from headway.workload.formats.elasticflow import read
from headway.workload.trace import Trace


@dataclass(frozen=True, slots=True)
class Published:
    file: str
    cluster: str
    table: str
    met: int
    """Deadlines met, as ElasticFlow's simulator prints it."""


TRACES = {
    "elasticVpollux_e": Published("elasticVpollux_e.csv", "16x4", "throughputs_T4", 142),
    "philly_103959": Published("philly_103959.csv", "32x8", "throughputs_A100", 795),
}


@dataclass(frozen=True, slots=True)
class MeasuredSpeeds:
    """Measured iterations per second by number of workers. More workers may be slower.

    Between two measured numbers, the smaller one counts. The published durations are the steps at these speeds.
    """

    points: Mapping[int, float]

    def __call__(self, layout: Layout) -> float:
        measured = max((count for count in self.points if count <= layout.workers), default=0)
        return self.points.get(measured, 0.0)


@cache
def _profiles(table: Path) -> dict[str, Profile]:
    """By model and batch, as the jobs' models are named here."""
    profiles = {}
    for path in sorted(table.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                points = {int(count): float(speed) for count, speed in row.items() if count.isdigit() and speed}
                known = {count: speed for count, speed in points.items() if speed > 0}
                profiles[f"{path.stem}-{float(row['global_batch_size']):g}"] = Profile(form=MeasuredSpeeds(known))
    return profiles


def _make(cell: Cell, seed: int, size: RunSize) -> Scenario:  # noqa: ARG001  a trace has no seed
    one = TRACES[cell.mix]
    path, profiles = trace_path(f"elasticflow/{one.file}"), _profiles(trace_path(f"elasticflow/{one.table}"))
    with path.open(newline="") as file:
        batches = {row["job_id"]: float(row["batch_size"]) for row in csv.DictReader(file)}
    trace = read(path)
    jobs = tuple(_sized(replace(job, model=f"{job.model}-{batches[job.id]:g}"), profiles) for job in trace.jobs)
    if size.jobs:
        jobs = jobs[: size.jobs]

    def world(trace: Trace, seed: int) -> World:
        return World(speed=Speed(profiles=profiles), work=trace.work, samples=False, seed=seed)

    return Scenario(replace(trace, jobs=jobs, name=cell.mix), tuple(open_cluster(one.cluster)), world)


def _sized(job: Job, profiles: Mapping[str, Profile]) -> Job:
    """The job with the numbers of workers that were measured."""
    profile, role = profiles.get(job.model), job.roles[0]
    if profile is None or not isinstance(profile.form, MeasuredSpeeds):
        raise UserError(f"job {job.id}: the tables have no throughput for {job.model}")
    counts = sorted(profile.form.points)
    asked = max(role.replicas, counts[0])
    bounds = replace(role, replicas=asked, min=min(counts[0], asked), max=max(counts[-1], asked))
    return replace(job, roles=(bounds,))


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    one, figures = TRACES[case.trace.name], deadline_figures(case, found, baseline)
    figures["jobs"] = figures["met"] * len(case.trace.jobs)
    figures["peer"] = figures["jobs"] - one.met
    return figures


CELLS = tuple(Cell("as published", name) for name in TRACES)

PEER = Experiment(
    name="deadline-peer",
    title="Deadlines on ElasticFlow's own traces",
    about="ElasticFlow's own simulator meets 142 of 195 deadlines on elasticVpollux_e and 795 of 876 on philly_103959.",
    setup="The jobs, deadlines and throughput tables that ElasticFlow published: 16 nodes of 4 T4, 32 nodes of 8 A100. "
    "Speed depends on the number of workers alone, decisions cost nothing and remaining times are true, as in its "
    "simulator. fifo, kube-default and edf run what was asked for.",
    main="deadline", baseline="fifo",
    entries=(*FIXED, Entry("elasticflow", "elasticflow"), Entry("deadline", "deadline", {"restart": 0.0})),
    cells=CELLS, quick_cells=CELLS[:1], full=RunSize(0, (0,)), quick=RunSize(0, (0,), quick=True),
    make=_make, measure=_measure, bound=lambda case: {"met": most_met(case)},
    figures=(
        Figure("jobs", "in time", "{:.0f}", more_is_better=True),
        Figure("peer", "more than the peer", "{:+.0f}", more_is_better=True,
               about="Jobs in time beyond what ElasticFlow's own simulator prints for the whole trace."),
        *FIGURES,
    ),
    targets=(
        Goal("jobs in time beyond ElasticFlow's own simulator", lambda by: by["deadline"]["peer"], 0.0, "{:+.0f}"),
    ),
    analysis=(
        "ElasticFlow rejects jobs that it cannot serve. Here they run late in the end and count as missed.",
        "One run per trace: nothing is random, so there is no interval.",
    ),
)  # fmt: skip
