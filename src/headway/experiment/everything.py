"""Everything: `headway` against all baselines on all published traces that have durations, with progress alone.

The traces are not part of Headway. HEADWAY_TRACES names the folder that has them; `everything_cells` says which.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headway.compare.scenario import Scenario
from headway.compare.table import worse
from headway.core.node import Nodes
from headway.estimates.models.coefficients import BUILT_IN
from headway.experiment.bound import elastic_floor
from headway.experiment.case import Entry, Experiment, Figure, Figures, Goal, RunSize
from headway.experiment.everything_cells import CELLS, make
from headway.record.results import Outcome
from headway.sim.speed import Speed

MAIN = "headway"
FIRST_FIT = "first-fit"
CLAIRVOYANT = ("srtf, all-knowing", "srsf, all-knowing")
TWIN = "headway, all-knowing"
AS_ASKED = (
    "kube-default", "fifo", FIRST_FIT, "backfill", "sjf", "srtf", "srsf", "las", "drf", "edf", "volcano",
    "combined-priority", "migration",
)  # fmt: skip
"""Policies that give every job the size it asks for."""
SIZING = ("optimus", "elasticflow", "dragon", "adaptive", "elastic", MAIN)
NO_DEADLINES = {"deadline_share": 0.0}
"""The claim is about completion times: headway serves no deadlines here."""
ENTRIES = (
    *(Entry(name, name, rigid=True) for name in AS_ASKED),
    *(Entry(name, name, NO_DEADLINES if name == MAIN else {}) for name in SIZING),
    *(Entry(label, label.split(",")[0], rigid=True, estimates="oracle") for label in CLAIRVOYANT),
    Entry(TWIN, MAIN, NO_DEADLINES, estimates="oracle"),
)
QUICK = ("tiresias", "gavel", "pollux")


def _measure(case: Scenario, found: Outcome, baseline: Outcome) -> Figures:
    done = found.completion[found.finished]
    asked = [number for number, job in enumerate(case.trace.jobs) if job.deadline is not None]
    met = [found.finished[n] and case.trace.jobs[n].submit + found.completion[n] <= (case.trace.jobs[n].deadline or 0.0)
           for n in asked]  # fmt: skip
    return {
        "jct": float(done.mean()) if len(done) else float("nan"),
        "p99": float(np.percentile(done, 99)) if len(done) else float("nan"),
        "median": float(np.median(done)) if len(done) else float("nan"),
        "stuck": float((~found.finished).mean()),
        "met": float(np.mean(met)) if asked else float("nan"),
        "worse": worse(found.completion, baseline.completion)["share"],
    }


def _bound(case: Scenario) -> Figures:
    return {"jct": elastic_floor(case.trace, Nodes.of(case.nodes), Speed(profiles=BUILT_IN))}


def to_clairvoyant(by: Mapping[str, Figures]) -> float | None:
    """Mean completion time as a multiple of the best all-knowing policy's."""
    return _over(by[MAIN]["jct"], min(by[label]["jct"] for label in CLAIRVOYANT))


def _others(by: Mapping[str, Figures]) -> list[Figures]:
    """All with the same estimates that left no more jobs unfinished."""
    others = [figures for label, figures in by.items() if label != MAIN and not label.endswith("all-knowing")]
    return [figures for figures in others if figures["stuck"] <= by[MAIN]["stuck"]]


def to_best(by: Mapping[str, Figures]) -> float | None:
    return _over(by[MAIN]["jct"], min(figures["jct"] for figures in _others(by)))


def to_best_within_tail(by: Mapping[str, Figures]) -> float | None:
    """Among those, only policies whose 99th percentile is not above first-fit's."""
    most = by[FIRST_FIT]["p99"] * (1.0 + 1e-9)
    return _over(by[MAIN]["jct"], min(figures["jct"] for figures in _others(by) if figures["p99"] <= most))


def to_first_fit(by: Mapping[str, Figures]) -> float | None:
    return _over(by[MAIN]["p99"], by[FIRST_FIT]["p99"])


def _over(one: float, other: float) -> float | None:
    return one / other if other > 0 else None


EVERYTHING = Experiment(
    name="everything",
    title="headway against all baselines on all published traces",
    about="What a composition should show: lowest mean completion time of all policies that learn from progress, near "
    "to the best that an all-knowing one reaches, and a tail no worse than that of first-fit.",
    setup="Seventeen cells from eleven published collections, by a rule that was fixed beforehand "
    "(docs/experiments.md). No job declares a duration; a job reports at most once a minute, and not before its "
    "training time has grown by a tenth. Jobs that may be scaled (itp, elasticflow, pollux, sia) are scaled by "
    "policies that choose sizes, and keep the asked-for size under the others. A start or growth costs 30 s, a save "
    "10 s. All-knowing policies have true times and pay the same costs. headway was tuned on other parts and "
    "workloads, and takes no notice of deadlines here (deadline_share=0).",
    main=MAIN, baseline=FIRST_FIT, entries=ENTRIES, cells=CELLS,
    quick_cells=tuple(cell for cell in CELLS if cell.mix in QUICK), full=RunSize(200, (1,)),
    quick=RunSize(60, (1,), quick=True), make=make, measure=_measure, bound=_bound,
    figures=(
        Figure("jct", "mean completion", "{:,.0f} s"), Figure("p99", "99th percentile", "{:,.0f} s"),
        Figure("median", "median", "{:,.0f} s"),
        Figure("met", "deadlines met", "{:.1%}", more_is_better=True, about="Of the jobs that have one."),
        Figure("stuck", "never done", "{:.1%}"),
        Figure("worse", "worse off", "{:.1%}", about="Share of jobs that take longer than under first-fit."),
    ),
    targets=(
        Goal("mean completion as a multiple of the best all-knowing of srtf and srsf", to_clairvoyant, 1.15, "{:.3f}",
             at_least=False),
        Goal("mean completion as a multiple of the best other with the same estimates", to_best, 1.0, "{:.3f}",
             at_least=False),
        Goal("the same among those whose 99th percentile is not above first-fit's", to_best_within_tail, 1.0,
             "{:.3f}", at_least=False),
        Goal("99th percentile as a multiple of first-fit's", to_first_fit, 1.0, "{:.3f}", at_least=False),
    ),
    analysis=(
        ("Shortest-first and a short tail conflict: what srtf and srsf gain on the mean, they take from the longest "
         "jobs. Where their 99th percentile is above first-fit's, the third target compares with policies that stay "
         "below it."),
        ("headway, all-knowing, is the same policy with true times. The difference between the two is the cost of "
         "learning lengths from progress."),
    ),
)  # fmt: skip
