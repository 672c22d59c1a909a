"""What the page's charts are drawn from: small enough to embed, whatever the size of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headway.core.job import Job
from headway.core.node import FloatArray
from headway.record.outcome import Outcome
from headway.record.timeline import Gantt

POINTS = 240
"""Of a curve: quantiles at equal steps."""


def chart_data(jobs: Sequence[Job], runs: Mapping[str, Sequence[Outcome]], baseline: str) -> dict[str, Any]:
    before = runs[baseline][0].completion
    curves: dict[str, dict[str, list[float]]] = {"completion": {}, "wait": {}, "slowdown": {}, "ratio": {}}
    series, gantts = {}, {}
    for name, found in runs.items():
        first = found[0]
        for figure in ("completion", "wait", "slowdown"):
            curves[figure][name] = quantiles(np.concatenate([getattr(run, figure) for run in found]))
        if name != baseline:
            with np.errstate(divide="ignore", invalid="ignore"):
                curves["ratio"][name] = quantiles(np.where(before > 0, first.completion / before, np.nan))
        if first.series is not None:
            series[name] = asdict(first.series)
        if first.gantt is not None:
            gantts[name] = packed(first.gantt, first.serials, jobs)
    return {
        "policies": [{"name": name, "index": index} for name, index in indices(runs, baseline).items()],
        "baseline": baseline,
        "curves": curves,
        "series": series,
        "gantt": gantts,
    }


def indices(names: Mapping[str, object], baseline: str) -> dict[str, int]:
    """Colour and dash by policy: the baseline is the plain grey one where there are others."""
    others = iter(range(1, 1000))
    return {name: 0 if name == baseline and len(names) > 1 else next(others) for name in names}


def quantiles(values: FloatArray) -> list[float]:
    """At most so many points of the sorted values, the last one always among them."""
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return []
    if len(known) > POINTS:
        places = np.ceil(np.linspace(1, len(known), POINTS)).astype(np.intp) - 1
        known = known[places]
    return [float(f"{value:.5g}") for value in known]


def packed(gantt: Gantt, serials: Mapping[int, int], jobs: Sequence[Job]) -> dict[str, Any]:
    base = {"begin": gantt.begin, "end": max(gantt.end, gantt.begin + 1e-6), "rows": gantt.rows}
    if not gantt.bars and gantt.shares:
        return {**base, "shares": gantt.shares}
    numbers: dict[int, int] = {}
    bars = [
        [
            bar.row, bar.slot, bar.slots, round(bar.begin, 3), round(bar.end, 3),
            numbers.setdefault(bar.serial, len(numbers)), int(bar.trains),
        ]
        for bar in gantt.bars
    ]  # fmt: skip
    names = [str(jobs[serials[serial]].id) for serial in numbers]
    return {**base, "slots": gantt.slots, "bars": bars, "jobs": names}
