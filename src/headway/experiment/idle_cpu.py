"""Users who ask for more cpu than their jobs use: what is used of what is allocated, and whether anybody is slowed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from headway.compare.scenario import Scenario
from headway.core.node import Nodes
from headway.core.quantity import CPU
from headway.experiment.bound import elastic_floor
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.record.results import Outcome
from headway.sim.cluster import Costs, Reports, World
from headway.sim.speed import Speed
from headway.workload.cluster import open_cluster
from headway.workload.overbooked import overbooked
from headway.workload.trace import Trace

NODES = tuple(open_cluster("8x16cpu"))
COSTS = Costs(start=10.0, save=5.0, resize=1.0)
LOADS = (0.5, 1.0, 1.5)
MIXES: Mapping[str, tuple[float, float]] = {
    "twice": (2.0, 2.0), "2 to 4 times": (2.0, 4.0), "four times": (4.0, 4.0),
}  # fmt: skip
"""By how much users ask for too much: from, to."""


def _make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    name, load = f"idle-cpu/{cell.name}/{seed}", float(cell.load.split()[-1])
    trace, needs = overbooked(name, size.jobs, load, MIXES[cell.mix], NODES, (seed, 47))
    return Scenario(trace, NODES, partial(_world, needs=needs), "progress")


def _world(trace: Trace, seed: int, *, needs: Mapping[str, float]) -> World:
    speed = Speed(metered=True, needs=needs)
    return World(costs=COSTS, speed=speed, work=trace.work, reports=Reports(seconds=30.0), seed=seed)


def _measure(case: Scenario, found: Outcome, _baseline: Outcome) -> Figures:
    truth = np.array([case.trace.work(job) or 0.0 for job in case.trace.jobs])
    ran, done = found.completion - found.wait, found.finished
    return {
        "of_held": found.result["used"].get(CPU, 0.0) / max(found.result["utilisation"].get(CPU, 0.0), 1e-9),
        "slowest": float((ran[done] / truth[done] - 1.0).max(initial=0.0)),
        "jct": float(found.completion[done].mean()) if done.any() else math.nan,
        "wait": float(np.nanmean(found.wait)) if done.any() else math.nan,
        "changes": found.result["decisions"].get("resize", 0) / len(case.trace.jobs),
        "stuck": float((~done).mean()),
    }


def _bound(case: Scenario) -> Figures:
    return {"jct": elastic_floor(case.trace, Nodes.of(case.nodes), Speed())}


def _cells(loads: tuple[float, ...], mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(f"load {load:g}", mix) for load in loads for mix in mixes)


IDLE_CPU = Experiment(
    name="idle-cpu",
    title="Users who ask for too much cpu",
    about="QoS-oriented scheduling (Xing et al.) reports 100 % use of allocated cpu.",
    setup="8 nodes of 16 cores. Workers use 0.5, 1 or 2 cores; users ask for 2 to 4 times as much. Jobs have 1, 2 "
    "or 4 workers and a fixed size, and take an hour in the mean (lognormal, sigma 1). Loads are by what is asked for. "
    "Nothing is declared. What is used is measured; starts and saves are allocated and not used.",
    main="headway", baseline="fifo",
    entries=(
        Entry("fifo", "fifo"), Entry("kube-default", "kube-default"), Entry("elastic", "elastic"),
        Entry("headway, cpu as asked", "headway", {"idle_after": 0.0}), Entry("headway", "headway"),
    ),
    cells=_cells(LOADS, tuple(MIXES)), quick_cells=_cells((1.0,), ("2 to 4 times",)),
    full=RunSize(100, (1, 2, 3, 4)), quick=RunSize(40, (1,), quick=True),
    make=_make, measure=_measure, bound=_bound,
    figures=(
        Figure("of_held", "used of allocated", "{:.1%}", more_is_better=True, about="Cores used over cores held."),
        Figure("slowest", "slowest job", "{:+.1%}", about="Of all jobs: running time over the true one."),
        Figure("jct", "mean completion", "{:,.0f} s"), Figure("wait", "mean wait", "{:,.0f} s"),
        Figure("changes", "resizes", "{:.2f}", about="Per job."), Figure("stuck", "never done", "{:.1%}"),
    ),
    targets=(
        Goal("per cent used of allocated", lambda by: 100.0 * by["headway"]["of_held"], 90.0),
        Goal("per cent by which the slowest job is slower", lambda by: 100.0 * by["headway"]["slowest"], 2.0,
             at_least=False),
    ),
    analysis=("The use of a job is constant here. Live it varies: there the highest of its last measurements counts.",),
)  # fmt: skip
