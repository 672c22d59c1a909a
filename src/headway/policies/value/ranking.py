"""In what order jobs come, and how that is told to people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.core.states import State
from headway.policies.value.expected import Expected
from headway.policies.value.times import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """All jobs that are not over, in what order they come and why. Columns are aligned with `rows`."""

    rows: Rows
    expected: Expected
    tail: BoolArray
    at_risk: BoolArray
    """Jobs whose deadline can be met from now on, and soon no longer."""
    in_trial: BoolArray
    """Running jobs that may still show their pace."""
    cooling: BoolArray
    """Running jobs that are left alone after a decision."""
    rank: FloatArray
    """The smallest comes first."""

    def column(self, count: int) -> FloatArray:
        """By row of the whole table; infinite where a job is over."""
        column = np.full(count, np.inf)
        column[self.rows] = self.rank
        return column


def expected_of(found: Expected, here: int) -> dict[str, Any]:
    seconds = float(found.seconds[here])
    basis = "as its own reports or its user say"
    if found.odd[here]:
        basis = "as similar jobs took, because its reports are not believed"
    elif not found.shown[here]:
        basis = "as similar jobs took, because it has not shown its pace"
    return {
        "seconds": seconds if math.isfinite(seconds) else None,
        "sentence": f"{seconds:.0f} s of training left at the size it asked for, {basis}.",
    }


def place_of(snapshot: Snapshot, ranking: Ranking, here: int) -> dict[str, Any]:
    """Of jobs with the same rank, the one that came first is first."""
    rank, rows = ranking.rank, ranking.rows
    first = (rank < rank[here]) | ((rank == rank[here]) & (np.arange(len(rows)) < here))
    waits = int((first & (snapshot.jobs.state[rows] == int(State.WAITING))).sum())
    before = int(first.sum())
    sentence = "No job comes before it"
    if before:
        parts = [f"{number} {word}" for number, word in ((before - waits, "running"), (waits, "waiting")) if number]
        jobs = "1 job comes" if before == 1 else f"{before} jobs come"
        sentence = f"{jobs} before it ({', '.join(parts)}), of {len(rows)} unfinished ones"
    if ranking.in_trial[here]:
        sentence += "; it is in its trial and is not stopped"
    elif ranking.cooling[here]:
        sentence += "; it is left alone after the last decision about it"
    return {"before": before, "jobs": len(rows), "sentence": sentence + "."}
