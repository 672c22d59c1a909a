"""Elastic: what it is worth to parameter-server jobs that sizes follow the load and placements follow the exchange."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from headway.compare.scenario import Scenario
from headway.compare.table import worse
from headway.core.job import Job, JobId, Role
from headway.core.node import Nodes
from headway.core.quantity import CPU
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.bound import elastic_floor
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.record.results import Outcome
from headway.sim.cluster import Costs, Reports, World
from headway.sim.speed import Speed
from headway.workload.cluster import open_cluster
from headway.workload.models import assign_models
from headway.workload.trace import Trace

NODES = tuple(open_cluster("8x16cpu"))
COSTS = Costs(start=30.0, scale=30.0, save=10.0, resize=1.0)
Measure = Callable[[Mapping[str, Figures]], float | None]
LOADS = (0.25, 0.5, 1.0, 1.5)
MEAN_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Mix:
    """What users ask for: servers and workers with weights, and the cores of each."""

    asks: tuple[tuple[int, int, float], ...]
    cores: int = 2
    needs: float = 1.0
    """Share of the asked-for cpu that workers can use."""
    estimates: str = "oracle"


_MIXED = ((1, 1, 0.2), (1, 2, 0.2), (1, 4, 0.2), (2, 4, 0.1), (2, 8, 0.1), (0, 1, 0.1), (0, 4, 0.1))
MIXES: Mapping[str, Mix] = {
    "samples": Mix(((1, 4, 1.0),), cores=4),
    "modest": Mix(((1, 1, 1.0),)),
    "mixed": Mix(_MIXED),
    "mixed, a quarter of the cpu needed": Mix(_MIXED, cores=4, needs=0.25),
    "mixed, estimates from progress": Mix(_MIXED, estimates="progress"),
}
MOST_WORKERS, MOST_SERVERS = 16, 8


def _make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    """Lengths lognormal (sigma 1) at the asked-for size, Poisson arrivals at the rate that gives the load."""
    mix, dice = MIXES[cell.mix], np.random.default_rng([seed, 31])
    weights = np.array([weight for _, _, weight in mix.asks])
    chosen = dice.choice(len(mix.asks), size.jobs, p=weights / weights.sum())
    seconds = np.round(MEAN_SECONDS * np.exp(dice.standard_normal(size.jobs) - 0.5), 3)
    asked = np.array([servers + workers for servers, workers, _ in mix.asks])[chosen]
    cores = sum(amount for node in NODES for kind, amount in node.capacity if kind == CPU) / 1000.0
    window = math.fsum(asked * mix.cores * seconds) / (cores * float(cell.load.split()[-1]))
    submits = np.round(np.sort(dice.uniform(0.0, window, size.jobs)), 3)
    jobs = [
        Job(id=JobId(f"job-{i:03}"), roles=_roles(mix.asks[chosen[i]], mix.cores), submit=float(submits[i]),
            seconds=float(seconds[i]))
        for i in range(size.jobs)
    ]  # fmt: skip
    named = assign_models(jobs, seed)
    needs: dict[str, float] = {job.id: mix.needs for job in jobs if mix.needs < 1.0}
    trace = Trace(name=f"elastic/{cell.name}/{seed}", jobs=named, nodes=NODES)
    if mix.estimates == "progress":
        truth = {job.id: job.seconds or 0.0 for job in named}
        trace = replace(trace, jobs=tuple(replace(job, seconds=None) for job in named), truth=truth)
    return Scenario(trace, NODES, partial(_world, needs=needs, samples=mix.estimates == "progress"), mix.estimates)


def _world(trace: Trace, seed: int, *, needs: Mapping[str, float], samples: bool) -> World:
    speed = Speed(profiles=BUILT_IN, metered=True, needs=needs)
    return World(costs=COSTS, speed=speed, work=trace.work, samples=samples, reports=Reports(seconds=30.0), seed=seed)


def _roles(asks: tuple[int, int, float], cores: int) -> tuple[Role, ...]:
    servers, workers, _ = asks
    request = ((CPU, 1000 * cores),)
    worker = Role(name="worker", replicas=workers, min=1, max=MOST_WORKERS, request=request)
    if not servers:
        return (worker,)
    ps = Role(name="ps", replicas=servers, min=1, max=MOST_SERVERS, request=request, near=("worker",))
    return (ps, replace(worker, near=("ps",), after=("ps",)))


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    """With a mark for the mixes that a goal is about."""
    return elastic_figures(case, found, baseline) | {mix: _in(mix, case) for mix in ("samples", "modest")}


def elastic_figures(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    changed = sum(found.result["decisions"].get(kind, 0) for kind in ("scale", "resize"))
    done = found.completion[found.finished]
    return {
        "jct": float(done.mean()) if len(done) else math.nan,
        "p99": float(np.percentile(done, 99)) if len(done) else math.nan,
        "wait": float(np.nanmean(found.wait)) if len(done) else math.nan,
        "use": found.result["used"].get(CPU, 0.0),
        "held": found.result["utilisation"].get(CPU, 0.0),
        "changes": changed / len(case.trace.jobs),
        "stuck": float((~found.finished).mean()),
        "worse": worse(found.completion, baseline.completion)["share"],
    }


def less(figure: str, other: str, by: Mapping[str, Figures]) -> float | None:
    """Per cent by which elastic is below another policy."""
    theirs = by[other][figure]
    return 100.0 * (1.0 - by["elastic"][figure] / theirs) if theirs > 0 else None


def _in(mix: str, case: Scenario) -> float:
    return float(f", {mix}/" in case.trace.name)


def _only(mix: str, value: Measure) -> Measure:
    """What a goal measures in the cells of one mix; None in other cells."""
    return lambda by: value(by) if by["elastic"][mix] else None


def _more_use(by: Mapping[str, Figures]) -> float | None:
    """Per cent by which elastic uses more cpu than the stock operator."""
    return 100.0 * (by["elastic"]["use"] / max(by[STOCK]["use"], 1e-9) - 1.0)


def best_other(figure: str, by: Mapping[str, Figures]) -> float | None:
    """Elastic's figure as a multiple of the lowest of all others."""
    others = [figures[figure] for label, figures in by.items() if label != "elastic" and figures["stuck"] == 0.0]
    return by["elastic"][figure] / min(others) if others else None


STOCK = "kube-default"


def entries(interval: float) -> tuple[Entry, ...]:
    """`interval`: seconds between two changes of a job by optimus; what suits it best differs."""
    return (
        Entry(STOCK, "kube-default", rigid=True), Entry("dragon", "dragon"),
        Entry("optimus", "optimus", {"interval": interval}),
        Entry("affinity only", "elastic", {"scaling": False}, rigid=True),
        Entry("scaling only", "elastic", {"affinity": False}), Entry("elastic", "elastic"),
    )  # fmt: skip


FIGURES = (
    Figure("jct", "mean completion", "{:,.0f} s", about="Of the jobs that finished."),
    Figure("p99", "99th percentile", "{:,.0f} s"),
    Figure("wait", "mean waiting", "{:,.0f} s", about="Seconds of a job's life in which its gang does not train."),
    Figure("use", "cpu use", "{:.1%}", more_is_better=True,
           about="Cores that compute or serve, as a share of all, from the first submission to the last end."),
    Figure("held", "cpu held", "{:.1%}", about="Cores that are promised to jobs, as a share of all."),
    Figure("changes", "changes per job", "{:.1f}", about="Scales and resizes."),
    Figure("stuck", "never done", "{:.1%}", about="Share of jobs that never finish."),
    Figure("worse", "worse off", "{:.1%}", about="Share of jobs that take longer than under the baseline."),
)  # fmt: skip


def _bound(case: Scenario) -> Figures:
    speed = case.world(case.trace, 0).speed
    assert isinstance(speed, Speed)
    return {"jct": elastic_floor(case.trace, Nodes.of(case.nodes), speed)}


def _cells(loads: tuple[float, ...], mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(f"load {load:g}", mix) for load in loads for mix in mixes)


ELASTIC = Experiment(
    name="elastic",
    title="Sizes that follow the load, places that follow the exchange",
    about="Jeong and Yu report, for parameter-server jobs on Kubeflow whose operator minds affinity and changes "
    "resources during the run, up to 84 % lower mean completion time and up to 92 % higher mean cpu utilisation than "
    "with the stock operator.",
    setup="8 nodes of 16 cores, no accelerators, TensorFlow-like jobs of parameter servers and workers. Their set-up "
    "is not published; this one has what the title and abstract name, and the sample jobs of DRAGON, on which their "
    "operator's relatives rest: one server and four workers of four cores each (mix `samples`). The stock operator "
    "with the native scheduler is kube-default at the asked-for size: pod by pod, no affinity, never another size. "
    "Others may choose 1 to 8 servers and 1 to 16 workers. Speeds by profiles fitted to 804 measured pairs of servers "
    "and workers; the exchange is cheaper on one node. `modest` users ask for one server and one worker; "
    "`mixed` has seven sizes, one job in five without servers. Lengths are lognormal with mean 1,800 s and sigma 1 at "
    "the asked-for size; load is asked-for core-seconds over what the cluster has until the last arrival. A start or "
    "growth costs 30 s, a save 10 s, a resize 1 s. optimus changes a job once a minute, which "
    "suits it better here than its ten minutes. True estimates, except in the last mix: there no job declares "
    "its time, and every policy has what jobs report.",
    main="elastic", baseline=STOCK, entries=entries(60.0),
    cells=_cells(LOADS, tuple(MIXES)), quick_cells=_cells((0.25, 1.5), ("samples", "modest")),
    full=RunSize(60, (1, 2, 3)), quick=RunSize(30, (1,), quick=True),
    make=_make, measure=_measure, bound=_bound, figures=FIGURES,
    targets=(
        Goal("mean completion as a multiple of the best of all others", partial(best_other, "jct"), 1.0, "{:.3f}",
             at_least=False),
        Goal("per cent lower mean completion than the stock operator, jobs as in the samples",
             _only("samples", partial(less, "jct", STOCK)), 84.0),
        Goal("per cent higher cpu use than the stock operator, modest requests", _only("modest", _more_use), 92.0),
        Goal("per cent lower mean completion than the stock operator", partial(less, "jct", STOCK), 0.0),
        Goal("per cent lower mean completion than dragon", partial(less, "jct", "dragon"), 0.0),
        Goal("per cent lower mean completion than optimus", partial(less, "jct", "optimus"), 0.0),
        Goal("per cent lower mean completion than affinity only", partial(less, "jct", "affinity only"), 0.0),
        Goal("per cent lower mean completion than scaling only", partial(less, "jct", "scaling only"), 0.0),
    ),
    analysis=(
        ("Both claims say up to, and not of the same run. Completion falls most where users ask for more than helps "
         "them and a queue forms (samples, at load 1 and above); cpu use rises most where they ask for little and "
         "nodes lie idle (modest, at load 0.5 and below). Each is measured in the cells of its own mix."),
        ("More cpu in use is not the aim: with twice as many workers a job computes more for each step. Where users "
         "ask for too much, elastic does the same work with fewer cores, and uses less."),
        ("dragon adds workers without servers. By the measured speeds, six models of eight are slower with four "
         "workers on one server than with one. So it is slower than the stock operator in most cells."),
        "The bound has every job in its fastest size and place from its submission on, gangs of any size on one node.",
    ),
)  # fmt: skip
