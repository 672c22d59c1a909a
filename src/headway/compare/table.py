"""Runs put side by side: means over seeds, intervals, ratios to both bounds, and who got worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.compare.bounds import Floor, Need, floor, ratio, ratios
from headway.compare.scenario import Scenario, Task
from headway.compare.versus import averaged, intervals, worse
from headway.core.node import Nodes
from headway.record.outcome import Outcome

CLAIRVOYANT = ("srtf", "srsf")
"""The best of these, with true remaining times, stands for what knowledge alone can do."""


@dataclass(frozen=True, slots=True)
class Compared:
    rows: list[dict[str, Any]]
    """One per policy, ready for JSON."""
    runs: dict[str, list[Outcome]]
    """By policy, in the order of seeds."""
    tasks: list[Task]
    baseline: str
    bounds: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"results": self.rows, "baseline": self.baseline, "bounds": self.bounds}


def compared(
    tasks: Sequence[Task], outcomes: Sequence[Outcome], baseline: str, needs: Sequence[Need], scenario: Scenario
) -> Compared:
    """`tasks` are the compared ones; outcomes beyond them are the clairvoyant ones that only the bound needs."""
    runs: dict[str, list[Outcome]] = {}
    for task, outcome in zip(tasks, outcomes, strict=False):
        runs.setdefault(task.policy, []).append(outcome)
    nodes = Nodes.of(scenario.nodes)
    knowing = [outcome for task, outcome in zip(tasks, outcomes, strict=False)
               if task.estimates == "oracle" and task.policy in CLAIRVOYANT]  # fmt: skip
    best = best_of([*knowing, *outcomes[len(tasks) :]])
    ended = np.any([outcome.finished for outcome in outcomes], axis=0)
    possible = [need for need, once in zip(needs, ended, strict=True) if once] if needs else []
    lowest = floor(possible, nodes) if possible else None
    rows = [_row(found, runs[baseline], (lowest, best), needs, nodes) for found in runs.values()]
    bounds = {
        "clairvoyant": {"policy": best.name, "jct": best.result["jct"]["mean"]} if best else None,
        "area": {"jct": lowest.completion, "makespan": lowest.makespan} if lowest else None,
    }
    return Compared(rows, runs, list(tasks), baseline, bounds)


def best_of(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The least mean completion time, of those under which most jobs finished."""
    ended = [outcome for outcome in outcomes if outcome.finished.any()]
    return min(ended, key=lambda o: (-int(o.finished.sum()), o.result["jct"]["mean"]), default=None)


def _row(
    runs: Sequence[Outcome], baseline: Sequence[Outcome], bounds: tuple[Floor | None, Outcome | None],
    needs: Sequence[Need], nodes: Nodes,
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = averaged([run.result for run in runs])
    lowest, best = bounds
    done = runs[0].finished
    if needs and done.any() and not done.all():  # under those that finished: leaving jobs out only lowers it
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
    """The ratio of mean completion times over the jobs that finished under both, its mean over seeds."""
    found = []
    for run, other in zip(runs, baseline, strict=True):
        both = run.finished & other.finished
        if both.any():
            found.append(ratio(float(run.completion[both].mean()), float(other.completion[both].mean())))
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None
