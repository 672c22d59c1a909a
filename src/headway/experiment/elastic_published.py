"""Elastic on published workloads: Pollux's own, and windows of Microsoft's Philly log.

The traces are not part of Headway. HEADWAY_TRACES names the folder that has them; `headway traces` says which.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from headway.compare.scenario import Scenario
from headway.core.node import Nodes
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.bound import elastic_floor
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.experiment.elastic import COSTS, STOCK, best_other, elastic_figures, entries, less
from headway.experiment.trace_folder import trace_path
from headway.record.results import Outcome
from headway.sim.speed import Speed
from headway.sim.world import World
from headway.workload.cluster import open_cluster
from headway.workload.formats import philly, pollux
from headway.workload.models import assign_models
from headway.workload.trace import Trace, elastic, head, rebase

POLLUX, REALISTIC, PHILLY = "pollux, tuned requests", "pollux, untuned requests", "philly"
LOG = "philly/philly_jobs.csv.gz"
WORKLOADS = {POLLUX: "pollux/workloads/workload-{}.csv", REALISTIC: "pollux/workloads-realistic/workload-{}.csv"}
"""{} is the seed."""
CLUSTERS = {POLLUX: "16x4", REALISTIC: "16x4", PHILLY: "32x4"}
WINDOW, FIRST, APART = 400, 30_000, 8_000
"""Jobs in one window of Philly's log, the first row of the first window, and rows from one window to the next."""
MOST_GPUS = 16
"""The max workers of Philly's jobs; larger ones keep what they ask for."""


@cache
def _log(path: Path) -> Trace:
    return philly.read(path)


def _trace(mix: str, seed: int) -> Trace:
    if mix in WORKLOADS:
        return pollux.read(trace_path(WORKLOADS[mix].format(seed)))
    log, begin = _log(trace_path(LOG)), FIRST + APART * (seed - 1)
    window = rebase(replace(log, jobs=log.jobs[begin : begin + WINDOW]))
    return elastic(replace(window, jobs=assign_models(window.jobs, seed)), MOST_GPUS)


def _make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    trace = _trace(cell.mix, seed)
    return Scenario(head(trace, size.jobs) if size.jobs else trace, tuple(open_cluster(CLUSTERS[cell.mix])), _world)


def _world(trace: Trace, seed: int) -> World:
    return World(costs=COSTS, speed=Speed(profiles=BUILT_IN), work=trace.work, samples=False, seed=seed)


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    figures = elastic_figures(case, found, baseline)
    figures["held"] = found.result["utilisation"].get("gpu", 0.0)
    return figures


def _bound(case: Scenario) -> Figures:
    return {"jct": elastic_floor(case.trace, Nodes.of(case.nodes), Speed(profiles=BUILT_IN))}


CELLS = tuple(Cell("as published", mix) for mix in CLUSTERS)

ELASTIC_PUBLISHED = Experiment(
    name="elastic-published",
    title="Elastic on published workloads",
    about="No claim of the paper's: the same policies on workloads that others have published.",
    setup="Three of Pollux's workloads of 160 jobs in 8 hours on 16 nodes of 4 T4, with its users' tuned and untuned "
    "requests; 1 to 64 workers, fixed batch per worker, speeds by profiles fitted to its measurements. Windows of 400 "
    "jobs of Philly's log (rows 30,000, 38,000, and so on) on 32 nodes of 4 GPUs; models by rule, 1 to 16 workers or "
    "what was asked for. A seed is a workload's or window's number. kube-default, affinity only and srtf run what was "
    "asked for. A start or growth costs 30 s, a save 10 s. True estimates for all.",
    main="elastic", baseline=STOCK, entries=(*entries(600.0), Entry("srtf", "srtf", rigid=True)),
    cells=CELLS, quick_cells=CELLS[:1], full=RunSize(0, (1, 2, 3)), quick=RunSize(60, (1,), quick=True),
    make=_make, measure=_measure, bound=_bound,
    figures=(
        Figure("jct", "mean completion", "{:,.0f} s"), Figure("p99", "99th percentile", "{:,.0f} s"),
        Figure("wait", "mean waiting", "{:,.0f} s", about="Seconds of a job's life in which its gang does not train."),
        Figure("held", "GPUs held", "{:.1%}"), Figure("changes", "changes per job", "{:.1f}", about="Scales."),
        Figure("stuck", "never done", "{:.1%}"),
        Figure("worse", "worse off", "{:.1%}", about="Share of jobs that take longer than under the baseline."),
    ),
    targets=(
        Goal("mean completion as a multiple of the best of all others", partial(best_other, "jct"), 1.0, "{:.3f}",
             at_least=False),
        *(Goal(f"per cent lower mean completion than {label}", partial(less, "jct", label), 0.0)
          for label in (STOCK, "dragon", "optimus", "affinity only", "scaling only", "srtf")),
    ),
    analysis=(
        ("srtf knows all lengths, stops jobs, which elastic never does, and keeps the asked-for size. It shows what "
         "order alone is worth."),
        ("elastic prefers jobs that are nearly done, at the cost of long jobs. The 99th percentile of dragon, which "
         "starts jobs strictly by arrival, is lower."),
        "One run per workload and window: intervals are over these.",
    ),
)  # fmt: skip
