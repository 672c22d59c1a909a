"""Combined priority: which jobs come first, which starve, what half gangs hold, and what affinity is worth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headway.compare.scenario import Scenario
from headway.compare.table import worse
from headway.core.node import BoolArray
from headway.core.quantity import GPU
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.bound import area_floor
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.record.results import Outcome
from headway.sim.cluster import Costs, World
from headway.sim.speed import Speed
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.settings import Settings
from headway.workload.trace import Trace

NODES = tuple(open_cluster("8x4gpu,16cpu"))
LONGEST_WAIT = 6 * 3600.0
USERS = (("user-0", 2.0), ("user-1", 9.0), ("user-2", 4.0), ("user-3", 7.0))
PREFERRED = ("user-1", "user-3")
COMBINED = {"user_priority": USERS, "longest_wait": LONGEST_WAIT}
WIDE = 8
COSTS = Costs(save=60.0, stop=10.0)
"""Only a stopped job pays them."""


def _make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    settings = Settings(
        jobs=size.jobs, load=float(cell.load.split()[-1]), sizes=cell.mix, seed=seed, users=4, urgent=0.2, ps=0.5,
        spread=1.2,
    )  # fmt: skip
    return Scenario(generate(settings, NODES), NODES, _world)


def _world(trace: Trace, seed: int) -> World:
    return World(costs=COSTS, speed=Speed(profiles=BUILT_IN), work=trace.work, samples=False, seed=seed)


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    jobs, wait = case.trace.jobs, found.wait
    urgent = np.array([job.priority > 0 for job in jobs])
    preferred = np.array([job.user in PREFERRED for job in jobs])
    wide = np.array([job.role("worker").replicas >= WIDE for job in jobs])
    servers = np.array([len(job.roles) > 1 for job in jobs]) & found.finished
    trained = (found.completion - wait)[servers]
    alone = np.array([case.trace.work(job) or 0.0 for job in jobs])[servers]
    held, stalled = found.result["held"].get(GPU, 0.0), found.result["stalled"].get(GPU, 0.0)
    return {
        "jct": float(np.nanmean(found.completion)) if found.finished.any() else float("nan"),
        "wait": float(np.nanmean(wait)) if found.finished.any() else float("nan"),
        "first": _relative(wait, urgent & preferred),
        "urgent": _relative(wait, urgent),
        "preferred": _relative(wait, preferred),
        "wide": _relative(wait, wide),
        "longest": float(np.nanmax(wait, initial=0.0)) / 3600.0,
        "stuck": float((~found.finished).mean()),
        "stalled": stalled / max(held, 1e-9),
        "ps": float((trained / alone).mean()) if servers.any() else float("nan"),
        "worse": worse(found.completion, baseline.completion)["share"],
    }


def _relative(wait: np.ndarray[tuple[int], np.dtype[np.float64]], mask: BoolArray) -> float:
    """Mean waiting of a class as a multiple of the mean of all jobs."""
    known = ~np.isnan(wait)
    everybody = float(wait[known].mean()) if known.any() else 0.0
    chosen = wait[known & mask]
    return float(chosen.mean()) / everybody if len(chosen) and everybody > 1.0 else float("nan")


def _ratio(figure: str, one: str, other: str, by: Mapping[str, Figures]) -> float | None:
    first, second = by[one][figure], by[other][figure]
    return first / second if second and not np.isnan([first, second]).any() else None


def _seconds(figure: str, other: str, by: Mapping[str, Figures]) -> float | None:
    """Seconds that a class waits, as a multiple of what it waits under another policy."""
    ours, theirs = (by[label][figure] * by[label]["wait"] for label in ("combined-priority", other))
    return ours / theirs if theirs > 1.0 and not np.isnan([ours, theirs]).any() else None


def _faster(by: Mapping[str, Figures]) -> float | None:
    """Per cent by which jobs with parameter servers train faster with affinity than without."""
    ratio = _ratio("ps", "no affinity", "combined-priority", by)
    return None if ratio is None else 100.0 * (ratio - 1.0)


FIGURES = (
    Figure("jct", "mean completion", "{:,.0f} s", about="Of the jobs that finished."),
    Figure("wait", "mean waiting", "{:,.0f} s"),
    Figure("first", "urgent and preferred", "{:.2f}",
           about="Mean waiting of urgent jobs of users with high priority, as a multiple of all jobs' waiting."),
    Figure("urgent", "urgent", "{:.2f}", about="The same of urgent jobs."),
    Figure("preferred", "preferred", "{:.2f}", about="The same of jobs of users with high priority."),
    Figure("wide", "wide", "{:.2f}", about=f"The same of jobs of {WIDE} workers and more."),
    Figure("longest", "longest wait", "{:,.1f} h"),
    Figure("stuck", "never done", "{:.1%}", about="Share of jobs that never finish: deadlocked, or behind those."),
    Figure("stalled", "held idle", "{:.1%}", about="Share of held GPU-seconds that belong to gangs which do not run."),
    Figure("ps", "ps jobs train", "{:.3f}", about="Training time of jobs with parameter servers, relative to the best "
           "place."),
    Figure("worse", "worse off", "{:.1%}", about="Share of jobs that take longer than under the baseline."),
)  # fmt: skip


def _cells(loads: tuple[float, ...], mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(f"load {load:g}", mix) for load in loads for mix in mixes)


COMBINED_PRIORITY = Experiment(
    name="combined",
    title="Combined priority with gangs and affinity",
    about="Du et al. claim that urgent, wide jobs of high-priority users get resources first, that gangs end deadlock "
    "and waste, and that affinity of parameter servers and workers shortens their exchange. They give no figure.",
    setup="8 nodes of 4 GPUs and 16 cores, Poisson arrivals, four users of whom two have a high priority, one job in "
    "five urgent, every second job of several workers with parameter servers. Starting costs nothing, so that what "
    "gangs hold without running is theirs alone; a stopped job saves for a minute and ends in ten seconds. A job "
    "reserves after 6 hours; Volcano's sla is the same. Speeds by fitted profiles, in which the exchange between "
    "server and worker takes half as long on one node.",
    main="combined-priority", baseline="fifo",
    entries=(
        Entry("kube-default", "kube-default"), Entry("fifo", "fifo"),
        Entry("volcano-like", "volcano", {"sla_waiting_time": LONGEST_WAIT}),
        Entry("with stops", "combined-priority", {**COMBINED, "preempt": 0.15}),
        Entry("no affinity", "combined-priority", {**COMBINED, "affinity": False}),
        Entry("combined-priority", "combined-priority", COMBINED),
    ),
    cells=_cells((0.7, 0.9, 1.1), ("philly", "balanced", "wide")),
    quick_cells=_cells((0.7, 1.1), ("balanced", "wide")),
    full=RunSize(150, (1, 2, 3, 4)), quick=RunSize(60, (1, 2), quick=True),
    make=_make, measure=_measure, bound=lambda case: {"jct": area_floor(case)}, figures=FIGURES,
    targets=(
        Goal("waiting of urgent jobs of preferred users, as a multiple of all jobs'",
             lambda by: by["combined-priority"]["first"], 0.5, "{:.2f}", at_least=False),
        Goal("the same with stops", lambda by: by["with stops"]["first"], 0.5, "{:.2f}", at_least=False),
        Goal("waiting of urgent jobs of preferred users, as a multiple of what they wait under fifo",
             lambda by: _seconds("first", "fifo", by), 0.5, "{:.2f}", at_least=False),
        Goal("waiting of wide jobs, as a multiple of what they wait under volcano-like",
             lambda by: _seconds("wide", "volcano-like", by), 1.0, "{:.2f}", at_least=False),
        Goal("per cent of jobs never done", lambda by: 100.0 * by["combined-priority"]["stuck"], 0.0, at_least=False),
        Goal("per cent of held GPU-seconds held idle", lambda by: 100.0 * by["combined-priority"]["stalled"], 0.0,
             at_least=False),
        Goal("per cent faster training of ps jobs with affinity", _faster, 20.0),
    ),
    analysis=(
        ("No job is stopped by default. An urgent job reserves when it arrives and can do no better: a wide one waits "
         "until enough running jobs have ended, while narrow jobs of low priority use the gaps. Where jobs of clearly "
         "lower priority are stopped for it (`with stops`), it waits for little more than their save. GPU-seconds "
         "held idle are then those in which they save."),
        ("No job is stopped more than twice, and no job that has waited a day (four times the longest wait). A job "
         "that has waited a day comes before every urgent job, so no job starves."),
        ("A job that is larger than a node exchanges over the network in any place: affinity gains at most what its "
         "links allow. In the fitted profiles the exchange is a part of the step, and replicas on one node share its "
         "link, as measured between two network namespaces."),
        ("Without affinity, roles are placed by best fit, which often puts them together by chance. The gain is "
         "measured against that, not against the worst placement."),
    ),
)  # fmt: skip
