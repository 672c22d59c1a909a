"""One run, ready to be compared: its figures, its jobs in the trace's order, and what a report draws of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.job import Job
from headway.core.node import FloatArray
from headway.core.states import State
from headway.record.metrics import Tally
from headway.record.results import main_capacity, slowdown
from headway.record.timeline import Gantt, Series, gantt, series


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    name: str
    seed: int
    result: dict[str, Any]
    completion: FloatArray
    """Seconds by job in the trace's order; not a number where it did not finish."""
    wait: FloatArray
    slowdown: FloatArray
    serials: dict[int, int]
    """Arrival number to place in the trace; only with pictures."""
    series: Series | None = None
    gantt: Gantt | None = None

    @property
    def finished(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return ~np.isnan(self.completion)


def outcome(tally: Tally, jobs: Sequence[Job], *, name: str = "", seed: int = 0) -> Outcome:
    result = tally.result()
    place = {job.id: number for number, job in enumerate(jobs)}
    columns = np.full((3, len(jobs)), np.nan)
    serials = {}
    for serial, course in tally.courses.items():
        number = place[course.job.id]
        serials[serial] = number
        if course.state is State.FINISHED:
            columns[:, number] = (course.completion, course.waited, slowdown(course))
    drawn: tuple[Series | None, Gantt | None] = (None, None)
    if tally.holdings.keep and tally.nodes is not None:
        first = min((job.submit for job in jobs), default=0.0)
        drawn = (
            series(tally.holdings, first, tally.now, main_capacity(tally)),
            gantt(tally.holdings, tally.nodes, first, tally.now),
        )
    kept = serials if tally.holdings.keep else {}
    return Outcome(name or result["policy"], seed, result, columns[0], columns[1], columns[2], kept, *drawn)
