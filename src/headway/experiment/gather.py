"""From runs to a result: means and intervals over seeds in every cell, targets, and the median cell as the headline."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from itertools import count
from multiprocessing import active_children, get_context
from typing import Any

import numpy as np

from headway.core.errors import UserError
from headway.experiment.case import Cell, Experiment, Figures, Size, Target
from headway.experiment.kept import Kept
from headway.experiment.perform import Measured, measure
from headway.experiment.registry import EXPERIMENTS

DRAWS = 1000
Tell = Callable[[float], None]


def run(
    experiment: Experiment, cells: Sequence[Cell], size: Size, processes: int, tell: Tell, kept: Kept | None = None
) -> list[Measured]:
    """Every cell with every seed, in the order of cells; whole cells go to processes, wide. Told is the share of runs
    that are done. Runs that were kept are not repeated, and what is done is kept at once.
    """
    wanted = [(cell, seed) for cell in cells for seed in size.seeds]
    whole = len(wanted) * len(experiment.entries)
    if processes > 1:
        return _several([(experiment.name, cell, seed, size, kept) for cell, seed in wanted], processes, whole, tell)
    done = count(1)
    return [measure(experiment, cell, seed, size, kept, lambda: tell(next(done) / whole)) for cell, seed in wanted]


Work = tuple[str, Cell, int, Size, Kept | None]
_here: dict[str, Any] = {}
"""A worker's own: how many runs all of them have done."""


def _several(wanted: Sequence[Work], processes: int, whole: int, tell: Tell) -> list[Measured]:
    context = get_context("spawn")
    done = context.Value("q", 0)
    with ProcessPoolExecutor(min(processes, len(wanted)), context, _receive, (done,)) as pool:
        futures = [pool.submit(_one, work) for work in wanted]
        running = set(futures)
        try:
            while running:
                over, running = wait(running, timeout=0.25)
                for future in over:
                    future.result()
                tell(done.value / whole)
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.terminate()
            raise


def _receive(done: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    _here["done"] = done


def _one(work: Work) -> Measured:
    name, cell, seed, size, kept = work
    try:
        return measure(EXPERIMENTS[name], cell, seed, size, kept, _count)
    except UserError as error:
        raise UserError(str(error)) from None  # subclasses may not survive the way between processes


def _count() -> None:
    with _here["done"].get_lock():
        _here["done"].value += 1


def result(experiment: Experiment, found: Sequence[Measured], size: Size) -> dict[str, Any]:
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


def _cell(experiment: Experiment, cell: Cell, found: Sequence[Measured]) -> dict[str, Any]:
    policies = {}
    for entry in experiment.entries:
        each = [one.figures[entry.label] for one in found]
        policies[entry.label] = {figure.name: _spread([one[figure.name] for one in each])
                                 for figure in experiment.figures}  # fmt: skip
    bound = {name: _spread([one.bound[name] for one in found])["mean"] for name in found[0].bound}
    targets = [_of_seeds(target, found) for target in experiment.targets]
    return {"load": cell.load, "mix": cell.mix, "policies": policies, "bound": bound, "targets": targets}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean over seeds and its 95 % interval by bootstrap; None where nothing is known."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return {"mean": None, "ci": None}
    drawn = known[np.random.default_rng(0).integers(len(known), size=(DRAWS, len(known)))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"mean": float(known.mean()), "ci": [float(low), float(high)] if len(known) > 1 else None}


def _of_seeds(target: Target, found: Sequence[Measured]) -> float | None:
    """What the target measures, from this cell's figures averaged over seeds."""
    labels = found[0].figures
    mean = {label: _mean([one.figures[label] for one in found]) for label in labels}
    value = target.measure(mean)
    return None if value is None or math.isnan(value) else value


def _mean(each: Sequence[Figures]) -> Figures:
    return {name: _or_nan(_spread([one[name] for one in each])["mean"]) for name in each[0]}


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _target(experiment: Experiment, target: Target, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    """The cell in the middle by the first figure of the main policy."""
    first = experiment.figures[0].name
    known = [cell for cell in cells if cell["policies"][experiment.main][first]["mean"] is not None]
    ordered = sorted(known, key=lambda cell: cell["policies"][experiment.main][first]["mean"])
    if not ordered:
        return {}
    middle = ordered[(len(ordered) - 1) // 2]
    return {"cell": f"{middle['load']}, {middle['mix']}", "figure": first, "policies": {
        label: figures[first]["mean"] for label, figures in middle["policies"].items()
    }, "bound": middle["bound"].get(first)}  # fmt: skip
