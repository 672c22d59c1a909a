"""From runs to a result: means and intervals over seeds in every cell, goals, and the median cell as the headline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headway.compare.kept_runs import KeptRuns
from headway.compare.perform import Tell, Workers, perform_all
from headway.compare.table import drawn_interval
from headway.experiment.case import Cell, Experiment, Figures, Goal, RunSize
from headway.experiment.perform import Measurement, measure
from headway.experiment.registry import EXPERIMENTS


def run(
    experiment: Experiment,
    cells: Sequence[Cell],
    size: RunSize,
    workers: Workers,
    tell: Tell,
    kept: KeptRuns | None = None,
) -> list[Measurement]:
    """Runs every cell with every seed; results are in the order of cells. `tell` gets the share of runs that are done.

    Runs that were kept are not repeated, and each finished run is kept at once.
    """
    wanted = [(cell, seed) for cell in cells for seed in size.seeds]
    return perform_all(_measure, (experiment.name, size, kept), wanted, workers, _total(len(wanted), tell))


def _measure(of: tuple[str, RunSize, KeptRuns | None], wanted: tuple[Cell, int], tell: Tell) -> Measurement:
    name, size, kept = of
    return measure(EXPERIMENTS[name], *wanted, size, kept, tell)


def _total(count: int, tell: Tell) -> Callable[[int, float], None]:
    """From the share of one cell to the share of all."""
    shares = [0.0] * count

    def told(number: int, share: float) -> None:
        if shares[number] != share:
            shares[number] = share
            tell(sum(shares) / count)

    return told


def result(experiment: Experiment, found: Sequence[Measurement], size: RunSize) -> dict[str, Any]:
    """Ready for JSON: the whole grid, targets, and the median cell."""
    cells = [_cell(experiment, cell, [one for one in found if one.cell == cell])
             for cell in dict.fromkeys(one.cell for one in found)]  # fmt: skip
    return {
        "experiment": experiment.name, "title": experiment.title, "about": experiment.about,
        "setup": experiment.setup, "main": experiment.main, "baseline": experiment.baseline,
        "jobs": size.jobs, "seeds": list(size.seeds), "quick": size.quick,
        "targets": [_target(experiment, target, cells) for target in experiment.targets],
        "headline": _headline(experiment, cells),
        "cells": cells, "analysis": list(experiment.analysis),
    }  # fmt: skip


def _cell(experiment: Experiment, cell: Cell, found: Sequence[Measurement]) -> dict[str, Any]:
    policies = {}
    for entry in experiment.entries:
        each = [one.figures[entry.label] for one in found]
        policies[entry.label] = {figure.name: _spread([one[figure.name] for one in each])
                                 for figure in experiment.figures}  # fmt: skip
    bound = {name: _spread([one.bound[name] for one in found])["mean"] for name in found[0].bound}
    targets = [_of_seeds(target, found) for target in experiment.targets]
    intervals = [_interval(target, found) for target in experiment.targets]
    return {
        "load": cell.load, "mix": cell.mix, "policies": policies, "bound": bound, "targets": targets,
        "target_intervals": intervals,
    }  # fmt: skip


def _spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean over seeds and its 95 % interval by bootstrap; None where no value is known."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return {"mean": None, "ci": None}
    return {"mean": float(known.mean()), "ci": drawn_interval(known) if len(known) > 1 else None}


def _of_seeds(target: Goal, found: Sequence[Measurement]) -> float | None:
    """The goal's value in this cell, from figures averaged over seeds."""
    labels = found[0].figures
    mean = {label: _mean([one.figures[label] for one in found]) for label in labels}
    value = target.measure(mean)
    return None if value is None or math.isnan(value) else value


def _interval(target: Goal, found: Sequence[Measurement]) -> Any:
    """The 95 % interval of the goal's value, measured in each seed alone: policies are compared on the same jobs."""
    values = [target.measure(one.figures) for one in found]
    return _spread([value for value in values if value is not None])["ci"]


def _mean(each: Sequence[Figures]) -> Figures:
    return {name: _or_nan(_spread([one[name] for one in each])["mean"]) for name in each[0]}


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _target(experiment: Experiment, target: Goal, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    place = list(experiment.targets).index(target)
    values = [value for cell in cells if (value := cell["targets"][place]) is not None]
    median = float(np.median(values)) if values else None
    return {
        "what": target.what, "reach": target.reach, "at_least": target.at_least, "form": target.form,
        "median": median, "worst": (min if target.at_least else max)(values, default=None),
        "best": (max if target.at_least else min)(values, default=None), "cells": len(values),
        "cells_reached": sum(target.reached(value) for value in values),
        "reached": median is not None and target.reached(median),
    }  # fmt: skip


def _headline(experiment: Experiment, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median cell by the first figure of the main policy."""
    first = experiment.figures[0].name
    known = [cell for cell in cells if cell["policies"][experiment.main][first]["mean"] is not None]
    ordered = sorted(known, key=lambda cell: cell["policies"][experiment.main][first]["mean"])
    if not ordered:
        return {}
    middle = ordered[(len(ordered) - 1) // 2]
    return {"cell": f"{middle['load']}, {middle['mix']}", "figure": first, "policies": {
        label: figures[first]["mean"] for label, figures in middle["policies"].items()
    }, "bound": middle["bound"].get(first)}  # fmt: skip
