"""Deadlines, when resources are scarce and when they are ample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from headway.beliefs.file import LearnedBeliefs
from headway.beliefs.folding import Folding
from headway.compare.bounds import sizes
from headway.compare.perform import Task, make_cluster
from headway.compare.scenario import Scenario
from headway.core.job import Job
from headway.core.node import Nodes
from headway.core.snapshot import Snapshot
from headway.cycle.loop import run
from headway.estimates.history.history import History
from headway.estimates.plain_books import NoEstimates
from headway.experiment.bound import fastest, most_met
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.experiment.perform import perform
from headway.policies.baselines.fifo import first_fit
from headway.record.results import Outcome
from headway.sim.cluster import Costs, World
from headway.sim.speed import Speed
from headway.sim.world import Reports
from headway.workload.cluster import open_cluster
from headway.workload.generate import generate
from headway.workload.models import OTHER_STEPS_PER_SECOND, STEPS_PER_SECOND
from headway.workload.settings import Settings
from headway.workload.trace import Trace

FIFO = Entry("fifo", "fifo", rigid=True)
ELASTIC = (Entry("elasticflow", "elasticflow", {"overhead": 10.0}), Entry("deadline", "deadline"))
FIXED = (FIFO, Entry("kube-default", "kube-default", rigid=True), Entry("edf", "edf", rigid=True))
COSTS = Costs(start=10.0, scale=10.0, save=5.0)
NOTHING, SIMILAR = "deadline, nothing declared", "deadline, similar jobs before"
FIGURES = (
    Figure("met", "deadlines met", "{:.1%}", more_is_better=True, about="Of all submitted jobs."),
    Figure("gained", "gained", "{:+.1f}", more_is_better=True, about="Points more met than under the baseline."),
    Figure("lost", "lost", "{:.1%}", about="Share of jobs that are in time under the baseline and late here."),
    Figure("jct", "mean completion", "{:,.0f} s", about="From submission to end, of all jobs, late ones too."),
    Figure("late", "mean lateness", "{:,.0f} s", about="Of the late ones: from deadline to end."),
)  # fmt: skip


def _world(trace: Trace, seed: int) -> World:
    return World(costs=COSTS, speed=Speed(), work=trace.work, samples=False, seed=seed)


# ── what is known of the jobs ──────────────────────────────────────────────────────────────────────────────

STEPS = 100_000
"""Training steps of every job of which nothing is declared: its pace, which only it knows, says how long it is."""
PACES = 0.2
"""How much the paces of similar jobs differ, as a standard deviation of the logarithm."""


def _unknown_world(trace: Trace, seed: int) -> World:
    return World(
        costs=COSTS, speed=Speed(), work=trace.work, reports=Reports(seconds=30.0, growth=0.05), seed=seed,
        steps=lambda job: job.steps or STEPS,
    )  # fmt: skip


def nothing_declared(case: Scenario, _seed: int) -> Scenario:
    """Only the deadline: no duration, no steps, no model."""
    jobs = tuple(replace(job, seconds=None, steps=None, model="") for job in case.trace.jobs)
    return Scenario(_blind(case.trace, jobs), NODES, _unknown_world, "progress")


def similar_before(case: Scenario, seed: int) -> Scenario:
    """As many jobs of the same models, sizes and users, of other lengths, have finished before. Jobs name their model
    and steps; a step takes what it takes in similar jobs, within a fifth.
    """
    jobs = _paced(case.trace, np.random.default_rng([seed, 13]))
    return Scenario(
        _blind(case.trace, jobs), NODES, _unknown_world, "progress", beliefs=LearnedBeliefs(_taught(case.trace, seed))
    )  # fmt: skip


def _blind(trace: Trace, jobs: tuple[Job, ...]) -> Trace:
    return replace(trace, jobs=jobs, truth={job.id: trace.work(job) or 0.0 for job in trace.jobs})


def _paced(trace: Trace, dice: np.random.Generator) -> tuple[Job, ...]:
    noise = np.exp(PACES * dice.standard_normal(len(trace.jobs)))
    rates = (STEPS_PER_SECOND.get(job.model, OTHER_STEPS_PER_SECOND) for job in trace.jobs)
    return tuple(
        replace(job, seconds=None, steps=max(1, round((trace.work(job) or 0.0) * rate * float(slower))))
        for job, rate, slower in zip(trace.jobs, rates, noise, strict=True)
    )


def _taught(trace: Trace, seed: int) -> History:
    """What the earlier jobs taught: each took as long as some job of this trace, one after the other by fifo."""
    dice = np.random.default_rng([seed, 17])
    lengths = dice.permutation(np.array([trace.work(job) or 0.0 for job in trace.jobs]))
    past = tuple(
        replace(job, deadline=None, seconds=float(took)) for job, took in zip(trace.jobs, lengths, strict=True)
    )
    before = replace(trace, jobs=past, truth=None)
    case = Scenario(_blind(before, _paced(before, dice)), NODES, _unknown_world, "progress")
    cluster, seen = make_cluster(case, Task(policy="first-fit", make=lambda: first_fit, seed=seed)), list[Snapshot]()
    run(cluster, first_fit, NoEstimates(), lambda decided: seen.append(decided.snapshot))
    folding = Folding()
    folding.run(seen)
    return folding.history


UNTOLD = (
    Entry(NOTHING, "deadline", sees=nothing_declared),
    Entry(SIMILAR, "deadline", sees=similar_before),
    Entry("headway, nothing declared", "headway", sees=nothing_declared),
)


def deadline_figures(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    allowed = np.array([(job.deadline or np.inf) - job.submit for job in case.trace.jobs])
    met, before = found.completion <= allowed + 1e-6, baseline.completion <= allowed + 1e-6
    late = (found.completion - allowed)[~met & found.finished]
    return {
        "met": float(met.mean()),
        "gained": 100.0 * float(met.mean() - before.mean()),
        "lost": float((before & ~met).mean()),
        "jct": float(np.nanmean(found.completion)),
        "late": float(late.mean()) if len(late) else 0.0,
    }


def _bound(case: Scenario) -> Figures:
    return {"met": most_met(case)}


# ── scarce resources ───────────────────────────────────────────────────────────────────────────────────────

SHARES = (0.3, 0.5, 0.7)
MIXES = ("philly", "balanced", "wide", "balanced, lengths alike", "balanced, times 20 % wrong")
NODES = tuple(open_cluster("4x4"))


def _scarce_trace(mix: str, load: float, seed: int, jobs: int) -> Trace:
    settings = Settings(
        jobs=jobs, load=load, sizes=mix.partition(",")[0], seed=seed, elastic=1.0, deadlines=1.0,
        deadline_rule="chronus", spread=0.5 if "alike" in mix else 1.5,
    )  # fmt: skip
    return generate(settings, NODES)


@cache
def native_load(mix: str, share: float, jobs: int, seed: int) -> float:
    """The load at which native order meets this share, by bisection from a fixed bracket."""
    low, high = 0.05, 20.0
    for _ in range(9):
        middle = math.sqrt(low * high)
        case = Scenario(_scarce_trace(mix, middle, seed, jobs), NODES, _world)
        found = perform(case, FIFO, seed)
        if deadline_figures(case, found, found)["met"] > share:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def _scarce(cell: Cell, seed: int, size: RunSize) -> Scenario:
    share = float(cell.load.split()[-2]) / 100.0
    trace = _scarce_trace(cell.mix, native_load(cell.mix, share, size.jobs, seed), seed, size.jobs)
    if "wrong" in cell.mix:
        chance = np.random.default_rng([seed, 7])
        truth = {job.id: job.seconds or 0.0 for job in trace.jobs}
        wrong = tuple(replace(job, seconds=(job.seconds or 0.0) * float(np.exp(0.2 * chance.standard_normal())))
                      for job in trace.jobs)  # fmt: skip
        return Scenario(replace(trace, jobs=wrong, truth=truth), NODES, _world, "declared")
    return Scenario(trace, NODES, _world)


def _points(share: float, by: Mapping[str, Figures]) -> float | None:
    """Points that `deadline` gains on native order, in cells where that meets about this share."""
    near = abs(by["fifo"]["met"] - share) < 0.1
    return 100.0 * (by["deadline"]["met"] - by["fifo"]["met"]) if near else None


def _more(by: Mapping[str, Figures]) -> float | None:
    near = abs(by["fifo"]["met"] - 0.7) < 0.1
    return 100.0 * (by["deadline"]["met"] / by["fifo"]["met"] - 1.0) if near else None


def _more_met(one: str, other: str, by: Mapping[str, Figures]) -> float:
    return 100.0 * (by[one]["met"] - by[other]["met"])


def _way(by: Mapping[str, Figures]) -> float | None:
    """Where edf is behind true times."""
    gap = by["deadline"]["met"] - by["edf"]["met"]
    return 100.0 * (by[NOTHING]["met"] - by["edf"]["met"]) / gap if gap > 1e-9 else None


def _scarce_cells(shares: tuple[float, ...], mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(f"native meets {100 * share:g} %", mix) for share in shares for mix in mixes)


SCARCE = Experiment(
    name="deadline-scarce",
    title="Deadlines when there is too little for all",
    about="QoS-oriented scheduling (Xing et al.) reports 26 % more jobs in time than native order when resources are "
    "insufficient.",
    setup="4 nodes of 4 GPUs. Deadlines 1.1 to about 4 times the duration at the asked-for size (lognormal, median "
    "1.97). Jobs may run at 1 worker to 4 times what they ask for; fifo, kube-default and edf keep to what was asked. "
    "A start costs 10 s, more replicas 10 s, a save 5 s. Per mix and seed the load is set so that fifo meets 30, 50 or "
    "70 %. Durations are lognormal with sigma 1.5, or 0.5 where lengths are alike. True remaining times, save where "
    "declared times are 20 % wrong (lognormal), and where a row says: nothing declared (the deadline alone; a script "
    "reports every 30 s) or similar jobs before (as many jobs of the same models have finished; paces differ by a "
    "fifth).",
    main="deadline", baseline="fifo", entries=(*FIXED, *ELASTIC, *UNTOLD),
    cells=_scarce_cells(SHARES, MIXES),
    quick_cells=_scarce_cells(SHARES, ("balanced", "balanced, lengths alike")),
    full=RunSize(100, (1, 2, 3, 4)), quick=RunSize(40, (1,), quick=True),
    make=_scarce, measure=deadline_figures, bound=_bound, figures=FIGURES,
    targets=(
        Goal("points more met than native order where that meets 30 %", lambda by: _points(0.3, by), 26.0),
        Goal("points more met than native order where that meets 50 %", lambda by: _points(0.5, by), 26.0),
        Goal("per cent more met than native order where that meets 70 %", _more, 26.0),
        Goal("points more met than elasticflow",
             lambda by: 100.0 * (by["deadline"]["met"] - by["elasticflow"]["met"]), 0.0),
        Goal("points more met than edf", lambda by: _more_met("deadline", "edf", by), 0.0),
        Goal("nothing declared: points more met than edf", lambda by: _more_met(NOTHING, "edf", by), 0.0),
        Goal("nothing declared: per cent of the way from edf to true times", _way, 50.0),
        Goal("similar jobs before: points behind true times", lambda by: _more_met("deadline", SIMILAR, by), 3.0,
             at_least=False),
        Goal("headway, nothing declared: points more met than edf",
             lambda by: _more_met("headway, nothing declared", "edf", by), 0.0),
    ),
    analysis=(
        "The bound lets every job start at the first submission and ignores nodes. It is loose, and never too low.",
        ("edf is strong where jobs differ much in length: short jobs have early deadlines, so that earliest deadline "
         "first is nearly shortest job first. It cannot give a job more than it asked for, or give a job up."),
    ),
)  # fmt: skip

# ── ample resources ─────────────────────────────────────────────────────────────────────────────────────────

CORES = tuple(open_cluster("8x16cpu"))


def _ample(cell: Cell, seed: int, size: RunSize) -> Scenario:
    """Deadlines of at least 1.2 times the fastest time, and never more demand at once than the booked share."""
    booked = float(cell.load.split()[0]) / 100.0
    settings = Settings(jobs=size.jobs, load=3.0, sizes=cell.mix, seed=seed, elastic=1.0, spread=1.0)
    trace = generate(settings, CORES)
    nodes, chance = Nodes.of(CORES), np.random.default_rng([seed, 11])
    cores = float(nodes.capacity.sum()) / 1000.0
    jobs, windows = list[Job](), list[tuple[float, float]]()
    for job in trace.jobs:
        solo = fastest(job, job.seconds or 0.0, Speed(), nodes) + COSTS.start
        allowed = solo * float(chance.uniform(1.2, 5.0))
        share = _least(job, allowed, nodes) / cores
        submit = _when_free(windows, job.submit, share, max(booked, share))
        windows.append((submit + allowed, share))
        jobs.append(replace(job, submit=submit, deadline=submit + allowed))
    ordered = tuple(sorted(jobs, key=lambda job: job.submit))
    return Scenario(replace(trace, jobs=ordered), CORES, _world)


def _least(job: Job, allowed: float, nodes: Nodes) -> int:
    """The min workers with which the job alone is in time, start included."""
    return next(
        sum(counts)
        for counts in sizes(job)
        if (job.seconds or 0.0) / Speed().at_size(job, counts, nodes) + COSTS.start <= allowed
    )


def _when_free(windows: list[tuple[float, float]], submit: float, share: float, booked: float) -> float:
    """The first moment from `submit` on at which the open windows leave this share."""
    for moment in [submit, *sorted(end for end, _ in windows if end > submit)]:
        if sum(other for end, other in windows if end > moment) + share <= booked + 1e-9:
            return moment
    return submit


def _ample_cells(shares: tuple[int, ...], mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(f"{share} % booked", mix) for share in shares for mix in mixes)


AMPLE = Experiment(
    name="deadline-ample",
    title="Deadlines when there is enough for all",
    about="QoS-oriented scheduling (Xing et al.) reports 100 % in time where resources suffice and it chooses the "
    "sizes.",
    setup="8 nodes of 16 cores, one core per worker. Every deadline is 1.2 to 5 times the time alone in the fastest "
    "size (four times the asked-for one), start included. Jobs are submitted as early as can be while the fewest cores "
    "that are in time for each, held until its deadline, are never more than the booked share of all cores. fifo, "
    "kube-default and edf run what users asked for.",
    main="deadline", baseline="fifo", entries=(*FIXED, *ELASTIC),
    cells=_ample_cells((60, 80, 100), ("single", "balanced", "wide")),
    quick_cells=_ample_cells((60, 100), ("balanced", "wide")),
    full=RunSize(100, (1, 2, 3, 4)), quick=RunSize(40, (1,), quick=True),
    make=_ample, measure=deadline_figures, bound=_bound, figures=FIGURES,
    targets=(
        Goal("per cent of deadlines met", lambda by: 100.0 * by["deadline"]["met"], 100.0),
    ),
    analysis=(
        ("What is used of what is allocated is another question, because workers here use all their cores: `headway "
         "experiment idle-cpu` asks it of users who ask for too much."),
        ("In its fastest size a job is about three times as fast as in the asked-for one. So the asked-for size cannot "
         "be in time where the deadline is nearer than that."),
    ),
)  # fmt: skip
