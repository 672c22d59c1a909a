"""Migration: what slow-growing jobs that make room are worth to everybody, and who pays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from headway.compare.scenario import Scenario
from headway.compare.table import worse
from headway.experiment.case import Cell, Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.experiment.short_jobs import MIXES, OWN, best_possible, even_sharing, queued, short_jobs
from headway.record.results import Outcome

LOADS = (0.7, 0.9, 1.2)
MAIN, NONE = "migration", "no migration"
OTHERS = (NONE, "balanced", "flowcon-like")
NO_GROWTH, BY_GROWTH, ANY_JOB = "without growth", "growth alone", "any job"


def _make(cell: Cell, seed: int, size: RunSize) -> Scenario:
    return short_jobs(cell, seed, size.jobs)


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    before, now = baseline.completion, found.completion
    best, third = best_possible(case), max(1, len(now) // 3)
    mean, last, before_last = float(now.mean()), _last(case, found), _last(case, baseline)
    gain = float(before.mean()) - best.completion
    loses = worse(now, before)
    return {
        "jct": mean,
        "saved": 100.0 * (1.0 - mean / float(before.mean())),
        "p95": float(np.percentile(now, 95)),
        "makespan": last,
        "earlier": 100.0 * (1.0 - last / before_last),
        "one": 100.0 * (1.0 - float((now / before).min())),
        "bound": (float(before.mean()) - mean) / gain if gain > 0 else float("nan"),
        "even": mean / even_sharing(case)[0],
        "queued": mean / queued(case),
        "worse": loses["share"],
        "pays": loses["seconds"],
        "early": worse(now[:third], before[:third])["share"],
        "late": worse(now[-third:], before[-third:])["share"],
        "moves": float(found.result["stops"]),
        "own": float(case.trace.name.startswith(OWN)),
    }


def _last(case: Scenario, found: Outcome) -> float:
    """From the first submission to the last end."""
    submits = np.array([job.submit for job in case.trace.jobs])
    return float((submits + found.completion).max() - submits.min())


def _bound(case: Scenario) -> Figures:
    best, (even, _) = best_possible(case), even_sharing(case)
    first = min(job.submit for job in case.trace.jobs)
    return {
        "jct": best.completion, "makespan": best.makespan - first, "even": best.completion / even,
        "queued": best.completion / queued(case),
    }  # fmt: skip


def _own(figure: str, by: Mapping[str, Figures]) -> float | None:
    return by[MAIN][figure] if by[MAIN]["own"] else None


def _better(by: Mapping[str, Figures]) -> float:
    """Per cent below the best of the others."""
    return 100.0 * (1.0 - by[MAIN]["jct"] / min(by[label]["jct"] for label in OTHERS))


def _worth(label: str, than: str, by: Mapping[str, Figures]) -> float:
    """Per cent of mean completion time that the one saves against the other."""
    return 100.0 * (1.0 - by[label]["jct"] / by[than]["jct"])


FIGURES = (
    Figure("jct", "mean completion", "{:,.0f} s"),
    Figure("saved", "sooner", "{:+.1f} %", more_is_better=True, about="Mean completion, against no migration."),
    Figure("p95", "95 %", "{:,.0f} s", about="95th percentile of completion time."),
    Figure("makespan", "last end", "{:,.0f} s", about="From the first submission."),
    Figure("earlier", "earlier", "{:+.1f} %", more_is_better=True, about="Last end, against that without migration."),
    Figure("one", "one job", "{:+.1f} %", more_is_better=True, about="The gain of the job that gains most."),
    Figure("bound", "of the bound", "{:.0%}", more_is_better=True,
           about="Mean time saved as a share of what the bound would save."),
    Figure("even", "to even sharing", "{:.2f}",
           about="Mean completion as a multiple of that if all jobs shared all nodes as one, evenly, at no cost."),
    Figure("queued", "to queueing", "{:.2f}",
           about="As a multiple of that if jobs waited for a node each, first come, first served, instead of sharing."),
    Figure("worse", "slower", "{:.1%}", about="Share of jobs that take longer than without migration."),
    Figure("pays", "by", "{:,.0f} s", about="How much longer these take, mean."),
    Figure("early", "of the first", "{:.0%}", about="Share slower of the third that came first."),
    Figure("late", "of the last", "{:.0%}", about="Share slower of the third that came last."),
    Figure("moves", "moves", "{:.0f}"),
)  # fmt: skip


def _cells(loads: tuple[float, ...], mixes: tuple[str, ...]) -> tuple[Cell, ...]:
    return (Cell(OWN, "50 short jobs"), *(Cell(f"load {load:g}", mix) for load in loads for mix in mixes))


MIGRATION = Experiment(
    name="migration",
    title="Moving slow-growing jobs away from fast-growing ones",
    about="SpeCon (Mao et al.) reports up to 41.5 % less for one job, 14.8 % less mean completion time and 24.7 % less "
    "makespan than the native scheduler. Its one published run of 50 jobs has 7.3 % less in the mean; 20 of the 50 "
    "jobs are slower, 15 of them among the first 18.",
    setup="4 nodes of 8 cores. Jobs ask for next to no cpu and have no limit, so that those on a node share it evenly; "
    "narrow ones use 3 cores at most. They report their loss every 10 s, with 1 % noise, and declare no time: all "
    "that is known of them is learnt from that. A start takes 5 s and a save 5 s. As published: the first 7 arrivals "
    "to the second, later gaps drawn from theirs (27.8 s in the mean), 820 to 1,620 core-seconds each. Grid: Poisson "
    "arrivals, 1,000 core-seconds in the mean, of like lengths, mixed (1 to 7) or heavy-tailed (lognormal). Speed is "
    "in proportion to cpu, except for sublinear jobs: to them 8 cores are worth 4.5 times one, and no policy is told. "
    "Without migration jobs are spread by number; moves only does the same and moves. Who moves is chosen in three "
    "other ways: without growth the soonest done; by growth alone any slow-growing job; any job. All moves must pay.",
    main=MAIN, baseline=NONE,
    entries=(
        Entry(NONE, "spread"), Entry("balanced", "balanced"), Entry("flowcon-like", "flowcon"),
        Entry("moves only", "migration", {"crowd": 1e9}), Entry(MAIN, "migration"),
        Entry(NO_GROWTH, "migration", {"growth": False}),
        Entry(BY_GROWTH, "migration", {"soonest": False}),
        Entry(ANY_JOB, "migration", {"growth": False, "soonest": False}),
    ),
    cells=_cells(LOADS, MIXES), quick_cells=_cells((0.9,), ("alike", "mixed")),
    full=RunSize(50, (1, 2, 3, 4, 5, 6)), quick=RunSize(50, (1, 2), quick=True),
    make=_make, measure=_measure, bound=_bound, figures=FIGURES,
    targets=(
        Goal("per cent that one job is sooner done, SpeCon's set-up", lambda by: _own("one", by), 41.5),
        Goal("per cent of mean completion time saved, SpeCon's set-up", lambda by: _own("saved", by), 14.8),
        Goal("per cent by which the last end is earlier, SpeCon's set-up", lambda by: _own("earlier", by), 24.7),
        Goal("per cent of mean completion time saved", lambda by: by[MAIN]["saved"], 14.8),
        Goal("per cent of what the bound would save", lambda by: 100.0 * by[MAIN]["bound"], 25.0),
        Goal("per cent below the best of the others", _better, 0.0),
        Goal("per cent of mean saved by growth beside the time left", partial(_worth, MAIN, NO_GROWTH), 0.0),
        Goal("per cent of mean saved by growth alone, against any job", partial(_worth, BY_GROWTH, ANY_JOB), 0.0),
        Goal("per cent of mean saved by time left alone, against any job", partial(_worth, NO_GROWTH, ANY_JOB), 0.0),
        Goal("per cent of jobs slower than without", lambda by: 100.0 * by[MAIN]["worse"], 10.0, at_least=False),
    ),
    analysis=(
        ("A node with a job on it is busy, however many jobs share it. So moves save time only where a node is idle: "
         "the last end can be earlier by no more than the bound says. Where that is less than 24.7 %, no policy can "
         "reach it on this cluster."),
        ("Moves can also choose which jobs share a node. Balancing alone gains little, as even sharing of the whole "
         "cluster at no cost shows. Most of the gain comes from sharing unevenly in time: new jobs crowd one node, and "
         "jobs that have learnt most leave it for nodes with few jobs, where they are soon done."),
        ("Queueing gives much of that gain without any move: jobs do not share but wait for a node each. This holds as "
         "long as jobs are of like lengths and can use a node. Where lengths differ or jobs are narrow, it loses."),
        ("The bound lets any job use the whole cluster up to its limit, shortest first, at no cost: a loose floor."),
        "Loss curves of the models are assumed shapes.",
    ),
)  # fmt: skip
