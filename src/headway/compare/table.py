"""Runs side by side: means over seeds, intervals, ratios to the baseline and both bounds, and which jobs got worse.

Intervals are drawn by bootstrap: over seeds where these differ, over jobs where they do not. Completion times of
neighbours in the queue depend on each other, so jobs are drawn in blocks of neighbours, and for a ratio the same blocks
are drawn for both policies. An interval over jobs tells how much the figure depends on which jobs came; it does not
tell what another trace would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.compare.assumptions import assumptions, contention
from headway.compare.bounds import Floor, Need, floor, ratio, ratios
from headway.compare.perform import Task
from headway.compare.scenario import Scenario
from headway.compare.trained_coverage import kept_out
from headway.core.node import BoolArray, FloatArray, Nodes
from headway.record.results import Outcome

CLAIRVOYANT = ("srtf", "srsf")
"""The best of these, with true remaining times, stands for what knowledge alone can do."""
NOTICEABLE = 0.01
"""A job got worse where it took longer by at least this share, and by at least a second."""
LEVEL = 0.95
PERCENTILES = [2.5, 97.5]
DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Compared:
    rows: list[dict[str, Any]]
    """One per policy, ready for JSON."""
    runs: dict[str, list[Outcome]]
    """By policy, in the order of seeds."""
    tasks: list[Task]
    baseline: str
    bounds: dict[str, Any]
    assumptions: dict[str, str]
    """By topic, a sentence each: what the runs take for granted."""
    hint: str = ""
    """A sentence where jobs hardly compete."""
    kept_out: str = ""
    """A sentence where a trained policy never decided."""

    def as_json(self) -> dict[str, Any]:
        return {
            "results": self.rows, "baseline": self.baseline, "bounds": self.bounds, "assumptions": self.assumptions,
            "hint": self.hint,
        }  # fmt: skip


def compared(
    tasks: Sequence[Task], outcomes: Sequence[Outcome], baseline: str, needs: Sequence[Need], scenario: Scenario
) -> Compared:
    """Outcomes beyond those of `tasks` are the clairvoyant runs that only the bound needs."""
    runs: dict[str, list[Outcome]] = {}
    for task, outcome in zip(tasks, outcomes, strict=False):
        runs.setdefault(task.policy, []).append(outcome)
    nodes = Nodes.of(scenario.nodes)
    knowing = [outcome for task, outcome in zip(tasks, outcomes, strict=False)
               if (task.estimates or scenario.estimates) == "oracle" and task.policy in CLAIRVOYANT]  # fmt: skip
    best = best_of([*knowing, *outcomes[len(tasks) :]])
    ended = np.any([outcome.finished for outcome in outcomes], axis=0)
    possible = [need for need, once in zip(needs, ended, strict=True) if once] if needs else []
    lowest = floor(possible, nodes) if possible else None
    rows = [_row(found, runs[baseline], (lowest, best), needs, nodes) for found in runs.values()]
    bounds = {
        "clairvoyant": {"policy": best.name, "jct": best.result["jct"]["mean"]} if best else None,
        "area": {"jct": lowest.completion, "makespan": lowest.makespan} if lowest else None,
    }
    taken = assumptions(scenario, tasks[0].estimates or scenario.estimates, rigid=all(task.rigid for task in tasks))
    never = _never_decided(runs)
    return Compared(rows, runs, list(tasks), baseline, bounds, taken, contention(scenario, rows), never)


def _never_decided(runs: Mapping[str, Sequence[Outcome]]) -> str:
    told = {name: [run.result["trained"] for run in found if "trained" in run.result] for name, found in runs.items()}
    return "; ".join(filter(None, (kept_out(name, one) for name, one in told.items())))


def best_of(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The lowest mean completion time, among those under which the most jobs finished."""
    ended = [outcome for outcome in outcomes if outcome.finished.any()]
    return min(ended, key=lambda o: (-int(o.finished.sum()), o.result["jct"]["mean"]), default=None)


def _row(
    runs: Sequence[Outcome], baseline: Sequence[Outcome], bounds: tuple[Floor | None, Outcome | None],
    needs: Sequence[Need], nodes: Nodes,
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = averaged([run.result for run in runs])
    lowest, best = bounds
    done = runs[0].finished
    if needs and done.any() and not done.all():  # the floor under the finished jobs: leaving jobs out only lowers it
        lowest = floor([need for need, ended in zip(needs, done, strict=True) if ended], nodes)
    row["seeds"] = [{"seed": run.seed, "jct": run.result["jct"], "makespan": run.result["makespan"]} for run in runs]
    row["ci"] = intervals(runs, baseline)
    row["ratio"] = {
        "baseline": _against(runs, baseline),
        **ratios(row, lowest, best.result["jct"]["mean"] if best else None),
    }
    row["worse"] = averaged(
        [worse(run.completion, other.completion) for run, other in zip(runs, baseline, strict=True)]
    )
    return row


def _against(runs: Sequence[Outcome], baseline: Sequence[Outcome]) -> float | None:
    """The ratio of mean completion times of jobs that finished under both; the mean over seeds."""
    found = []
    for run, other in zip(runs, baseline, strict=True):
        both = run.finished & other.finished
        if both.any():
            found.append(ratio(float(run.completion[both].mean()), float(other.completion[both].mean())))
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def worse(completion: FloatArray, baseline: FloatArray, mask: BoolArray | None = None) -> dict[str, Any]:
    """For jobs that finished under the baseline: the share that took longer or never ended, and how much longer."""
    counted = ~np.isnan(baseline) if mask is None else mask & ~np.isnan(baseline)
    now, before = completion[counted], baseline[counted]
    lost = np.isnan(now)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(before > 0, now / before, 1.0)
    harmed = (now - before >= 1.0) & (factor >= 1 + NOTICEABLE)
    helped = (before - now >= 1.0) & (factor <= 1 - NOTICEABLE)
    count = max(1, int(counted.sum()))
    return {
        "jobs": int(counted.sum()),
        "share": float((harmed | lost).sum()) / count,
        "better": float(helped.sum()) / count,
        "lost": int(lost.sum()),
        "seconds": _mean((now - before)[harmed]),
        "factor": {"p50": _quantile(factor[harmed], 50), "p95": _quantile(factor[harmed], 95)},
        "median_ratio": _quantile(factor[~lost], 50),
    }


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _quantile(values: FloatArray, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def averaged(results: Sequence[Any]) -> Any:
    """The mean of figures over seeds. What is equal in all stays as it is."""
    first = results[0]
    if isinstance(first, dict):
        names = dict.fromkeys(name for result in results for name in result)
        return {name: averaged([result[name] for result in results if name in result]) for name in names}
    if all(result == first for result in results):
        return first
    known = [result for result in results if isinstance(result, int | float)]
    return float(np.mean(known)) if known else first


# ── intervals ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    over: str
    """What was drawn: seeds or jobs."""

    def as_list(self) -> list[float]:
        return [self.low, self.high]


def of_mean(runs: Sequence[FloatArray]) -> Interval | None:
    """For the mean of one figure per job; one array per seed, NaN where a job has no figure."""
    return of_ratio(runs, None)


def of_ratio(runs: Sequence[FloatArray], baseline: Sequence[FloatArray] | None) -> Interval | None:
    """For the ratio of two means over the jobs that have both. Without a baseline: for the mean itself."""
    pairs = [_both(run, None if baseline is None else baseline[number]) for number, run in enumerate(runs)]
    pairs = [pair for pair in pairs if pair.shape[1]]
    if not pairs:
        return None
    each = np.array([_figure(pair.mean(axis=1)) for pair in pairs])
    if np.isnan(each).any():
        return None
    over = "seeds" if len(each) > 1 and float(np.ptp(each)) > 1e-9 * float(np.abs(each).max()) else "jobs"
    if over == "seeds":
        low, high = drawn_interval(each)
    else:
        low, high = np.percentile(_draw_blocks(pairs[0], np.random.default_rng(0)), PERCENTILES)
    return Interval(float(low), float(high), over)


def drawn_interval(values: FloatArray) -> list[float]:
    """The 95 % interval of the mean, by bootstrap over the values."""
    drawn = values[np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))].mean(axis=1)
    return [float(edge) for edge in np.percentile(drawn, PERCENTILES)]


def _both(run: FloatArray, other: FloatArray | None) -> FloatArray:
    if other is None:
        return np.stack([run, np.ones_like(run)])[:, ~np.isnan(run)]
    return np.stack([run, other])[:, ~np.isnan(run) & ~np.isnan(other)]


def _figure(means: FloatArray) -> Any:
    return np.divide(means[0], means[1], out=np.full_like(means[0], np.nan), where=means[1] != 0)


def _draw_blocks(pair: FloatArray, generator: np.random.Generator) -> FloatArray:
    count = pair.shape[1]
    size = max(1, round(count ** (1 / 3)))
    edges = np.arange(0, count, size)
    sums = np.add.reduceat(pair, edges, axis=1)
    picks = generator.integers(len(edges), size=(DRAWS, len(edges)))
    one, other = sums[0][picks].sum(axis=1), sums[1][picks].sum(axis=1)
    figures: FloatArray = np.divide(one, other, out=np.zeros_like(one), where=other != 0)
    return figures


def intervals(runs: Sequence[Outcome], baseline: Sequence[Outcome]) -> dict[str, Any]:
    found: dict[str, Any] = {"level": LEVEL}
    for name in ("completion", "wait", "slowdown"):
        interval = of_mean([getattr(run, name) for run in runs])
        if interval is not None:
            found["jct" if name == "completion" else name] = interval.as_list()
            found["over"] = interval.over
    against = of_ratio([run.completion for run in runs], [run.completion for run in baseline])
    if against is not None:
        found["baseline"] = against.as_list()
    return found
