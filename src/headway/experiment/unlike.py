"""Unlike accelerators: what it is worth to send jobs where they gain most from the type.

The traces are not part of Headway. HEADWAY_TRACES names the folder that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from headway.compare.scenario import Scenario
from headway.compare.table import worse
from headway.core.job import JobId
from headway.core.node import FloatArray, Node
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.experiment.everything_cells import blind, read_trace
from headway.record.results import Outcome
from headway.sim.cluster import Costs, Reports
from headway.sim.speed import Speed
from headway.sim.world import World
from headway.workload.trace import Trace, compress, rebase, rigid

MAIN, TWIN, BASELINE = "headway", "headway, all-knowing", "first-fit"
FREE, COSTLY = "no costs", "30 s + 10 s"
COSTS = {FREE: Costs(), COSTLY: Costs(start=30.0, save=10.0)}
FAIRNESS, MAKESPAN, MSR, SIA, HYDRA = "gavel, fairness", "gavel, makespan", "gavel, msr", "sia", "hydra"
SATURN, NEW = "sia, saturn", "sia, new"
OF_SIA = (SIA, SATURN, NEW)
SIA_NODES = {"t4": (6, 4), "a100": (2, 8), "rtx2080ti": (3, 8)}
GAVEL = {"v100": (1, 8), "p100": (1, 16), "k80": (1, 24)}
"""Nodes of a type, and accelerators of each."""
CLUSTERS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    FAIRNESS: GAVEL, MAKESPAN: GAVEL, MSR: GAVEL,
    SIA: SIA_NODES, SATURN: SIA_NODES, NEW: SIA_NODES,
    HYDRA: {"A100": (2, 8), "V100": (2, 8), "GTX2080Ti": (2, 8)},
}  # fmt: skip
FILES: Mapping[str, tuple[str, ...]] = {
    FAIRNESS: ("gavel/traces/physical_cluster/max_min_fairness.trace",),
    MAKESPAN: ("gavel/traces/physical_cluster/minimize_makespan.trace",),
    MSR: tuple(
        f"gavel/traces/msr/seed0/{name}.trace.gz"
        for name in ("6214e9", "6c71a0", "11cb48", "b436b2", "ee9e8c", "103959", "0e4a51", "e13805")
    ),
    SIA: tuple(f"sia/workloads/philly/workload-{number}.csv" for number in range(1, 9)),
    SATURN: tuple(f"sia/workloads/saturn/workload-{number}.csv" for number in range(1, 4)),
    NEW: tuple(f"sia/workloads/newtrace/workload-{number}.csv" for number in range(1, 4)),
    HYDRA: ("hydra/20_ddl.csv.gz",),
}
"""The n-th seed reads the n-th; where there is one, and the workload is larger, another window of it."""
WHOLE = tuple(Cell(costs, mix).name for costs in (FREE, COSTLY) for mix in (FAIRNESS, MAKESPAN))
SMALL = 90
"""Cells that Gavel's figures are of, and fewer jobs than they have."""
LAST = 0.75
"""Of a virtual cluster of msr, jobs from this share on: settings were chosen on earlier ones."""
BUSY = 16.0
"""Accelerator-hours on the fastest type that msr's jobs bring in an hour."""


def make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    nodes = tuple(
        Node(name=f"{kind}-{number}", capacity=(("gpu", gpus),), accelerator=kind)
        for kind, (count, gpus) in CLUSTERS[cell.mix].items()
        for number in range(count)
    )
    trace = blind(rebase(_jobs(cell.mix, seed, size.jobs)), deadlines=False)
    return Scenario(trace, nodes, partial(_world, cell.load), "progress", cell.name)


def _world(costs: str, trace: Trace, seed: int) -> World:
    return World(
        costs=COSTS[costs], speed=Speed(seconds_on=trace.seconds_on), work=trace.work, reports=Reports(seconds=30.0),
        seed=seed,
    )  # fmt: skip


def _jobs(mix: str, seed: int, count: int) -> Trace:
    files = FILES[mix]
    trace = rigid(read_trace(files[(seed - 1) % len(files)]))
    widest = max(each * nodes for nodes, each in CLUSTERS[mix].values()) // 2 if mix in OF_SIA else 8
    if mix in OF_SIA:
        trace = _by_factors(trace)
    jobs = [job for job in trace.jobs if job.replicas <= widest and job.id in trace.seconds_on]
    if mix == MSR:
        jobs = [job for job in jobs if 300.0 < (job.seconds or 0.0) < 43_200.0]
        jobs = jobs[int(LAST * len(jobs)) :][:count]
    elif mix == HYDRA:
        jobs = jobs[(seed - 1) * count :][:count]
    found = replace(trace, jobs=tuple(jobs[:count]))
    return _pressed(found) if mix == MSR else found


def _pressed(trace: Trace) -> Trace:
    """As busy as all other slices."""
    hours = sum(job.replicas * (job.seconds or 0.0) for job in trace.jobs) / 3600.0 / BUSY
    return compress(trace, (trace.jobs[-1].submit - trace.jobs[0].submit) / (3600.0 * hours))


def _by_factors(trace: Trace) -> Trace:
    """Seconds on each type, by the measured factors of each model."""
    on = {
        job.id: {kind: (job.seconds or 0.0) / BUILT_IN[job.model].accelerators.get(kind, 1.0) for kind in SIA_NODES}
        for job in trace.jobs
    }
    return replace(
        trace, seconds_on=on, jobs=tuple(replace(job, seconds=min(on[job.id].values())) for job in trace.jobs)
    )


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    hours = found.completion / 3600.0
    submit = np.array([job.submit for job in case.trace.jobs])
    whole = case.source in WHOLE and len(hours) > SMALL
    return {
        "jct": float(hours.mean()), "p99": float(np.percentile(hours, 99)),
        "end": float((submit + found.completion).max() / 3600.0),
        "fair": float(np.percentile(_finish_time_fairness(case, found.completion), 95)),
        "worse": worse(found.completion, baseline.completion)["share"],
        "gavel": float(WHOLE.index(case.source)) if whole else -1.0,
    }  # fmt: skip


def _finish_time_fairness(case: Scenario, completion: FloatArray) -> FloatArray:
    """Completion as a multiple of that with an even share: as fast as on all types in the mean, slower by as much as
    all jobs that were there asked for more than there is.
    """
    gpus = {node.accelerator: 0.0 for node in case.nodes}
    for node in case.nodes:
        gpus[node.accelerator] += dict(node.capacity)["gpu"]
    total, jobs = sum(gpus.values()), case.trace.jobs
    begin = np.array([job.submit for job in jobs])
    end, width = begin + completion, np.array([float(job.replicas) for job in jobs])
    alone = [total / sum(gpus[kind] / seconds for kind, seconds in _on_each(case, job.id, gpus)) for job in jobs]
    together = np.maximum(np.minimum(end[:, None], end) - np.maximum(begin[:, None], begin), 0.0) @ width
    fair: FloatArray = completion / (np.array(alone) * np.maximum(together / completion / total, 1.0))
    return fair


def _on_each(case: Scenario, job: JobId, kinds: Iterable[str]) -> Iterator[tuple[str, float]]:
    """A type on which it was not measured counts as its slowest, as in the simulator."""
    on = case.trace.seconds_on[job]
    yield from ((kind, on.get(kind, max(on.values()))) for kind in kinds)


def _bound(case: Scenario) -> Figures:
    """Each job at once on its fastest type."""
    fastest = np.array([min(case.trace.seconds_on[job.id].values()) for job in case.trace.jobs]) / 3600.0
    submit = np.array([job.submit for job in case.trace.jobs]) / 3600.0
    return {"jct": float(fastest.mean()), "end": float((submit + fastest).max())}


def _on(trace: int, figure: str, by: Mapping[str, Figures]) -> float | None:
    return by[MAIN][figure] if by[MAIN]["gavel"] == trace else None


def _to_best(by: Mapping[str, Figures]) -> float:
    others = [figures["jct"] for label, figures in by.items() if label != MAIN and "all-knowing" not in label]
    return by[MAIN]["jct"] / min(others)


def _to_published(by: Mapping[str, Figures]) -> float:
    return by[MAIN]["jct"] / min(by[label]["jct"] for label in PUBLISHED)


def _cells(mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(costs, mix) for mix in mixes for costs in COSTS)


OTHERS = ("fifo", BASELINE, "srtf", "srsf", "las", "tiresias", "gavel-max-min", "sia")
PUBLISHED = {f"{name}, all-knowing": name for name in ("gavel-max-min", "gavel-finish-time", "gavel-makespan", "sia")}
"""Label to policy: they know the true seconds on every type, as in their authors' simulators."""
UNLIKE = Experiment(
    name="unlike",
    title="Jobs where they gain most from the type of accelerators",
    about="Gavel (Narayanan et al., OSDI 2020) deals out time on unlike accelerators by linear programmes that know "
    "the true speed of every job on every type. With progress only, headway is to be below the mean completion of "
    "every Gavel policy on Gavel's two traces (4.06 and 9.91 h), and near to its best last ends (17.09 and 17.98 h).",
    setup="Gavel's cluster (8 V100, 16 P100, 24 K80) and traces, and slices of its larger ones (msr); jobs of "
    "Sia's three families of workloads at the size that they ask for, on 24 T4, 16 A100 and 24 RTX 2080 Ti, with the "
    "built-in factors of each model, which headway knows, too; Hydra's jobs on 16 A100, 16 V100 and 16 GTX 2080 Ti. "
    "Jobs declare no time and report each 30 s. Gavel's policies and Sia are also told the true seconds on every type, "
    "as in their authors' simulators. "
    "Settings were chosen on earlier slices of msr.",
    main=MAIN, baseline=BASELINE,
    entries=(
        *(Entry(name, name) for name in OTHERS), Entry("headway without types", "headway", {"by_type": False}),
        Entry(MAIN, "headway"), Entry(TWIN, "headway", estimates="oracle"),
        *(Entry(label, name, estimates="oracle") for label, name in PUBLISHED.items()),
    ),
    cells=_cells((FAIRNESS, MAKESPAN, MSR, SIA, SATURN, NEW, HYDRA)), quick_cells=_cells((FAIRNESS, SIA)),
    full=RunSize(120, (1, 2, 3)), quick=RunSize(40, (1,), quick=True),
    make=make, measure=_measure, bound=_bound,
    figures=(
        Figure("jct", "mean completion", "{:.2f} h"), Figure("end", "last end", "{:.1f} h"),
        Figure("p99", "99th percentile", "{:.1f} h"),
        Figure("fair", "fairness", "{:.2f}", about="95th percentile of completion as a multiple of that with an even "
               "share of the cluster."),
        Figure("worse", "worse off", "{:.0%}", about="Share of jobs that take longer than under first-fit."),
    ),
    targets=(
        Goal("mean h, Gavel's fairness trace", partial(_on, 0, "jct"), 3.7, "{:.2f}", at_least=False),
        Goal("last end h there", partial(_on, 0, "end"), 17.60, "{:.2f}", at_least=False),
        Goal("mean h there, with costs", partial(_on, 2, "jct"), 4.06, "{:.2f}", at_least=False),
        Goal("mean h, Gavel's makespan trace", partial(_on, 1, "jct"), 7.5, "{:.2f}", at_least=False),
        Goal("last end h there", partial(_on, 1, "end"), 20.68, "{:.2f}", at_least=False),
        Goal("mean h there, with costs", partial(_on, 3, "jct"), 9.91, "{:.2f}", at_least=False),
        Goal("mean as a multiple of the best other with the same estimates", _to_best, 1.0, "{:.3f}", at_least=False),
        Goal("mean as a multiple of the best of Gavel's and Sia's, all-knowing", _to_published, 1.0, "{:.3f}",
             at_least=False),
    ),
    traces=lambda cell: FILES[cell.mix],
    analysis=(
        "Last ends vary: settings that make no difference move them by 3 %.",
        ("openb names the GPU models of its nodes and pods, but tells no speeds by type: it is not in it. Nor is srtf "
         "with true times: where starts cost time, it stops and starts without end, because a job has less left while "
         "it waits for any type than on a slow one."),
    ),
)  # fmt: skip
