"""In what order jobs come, and how that is told to people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.node import BoolArray, FloatArray
from headway.core.snapshot import Snapshot
from headway.core.states import TRAINING, State
from headway.core.text import lasting
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


def expected_of(snapshot: Snapshot, row: int) -> dict[str, Any]:
    """What is believed of its time left. By what it is ranked is another figure, which means nothing to people."""
    believed = snapshot.estimates.of(row, snapshot.now)
    if math.isnan(believed.left):
        why = believed.sentence.removeprefix("nothing is known: ")
        return {"seconds": None, "sentence": f"It is not known how long it trains: {why}."}
    size = "its present size" if snapshot.jobs.state_of(row) in TRAINING else "the size it asked for"
    sentence = f"{lasting(believed.left)} of training left at {size}: {believed.sentence}."
    return {"seconds": believed.left, "sentence": sentence}


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


def why_first(ranking: Ranking, here: int) -> dict[str, str]:
    """Why a job comes before others of its priority; empty where it does not."""
    told = {}
    if ranking.tail[here]:
        told["tail"] = "It is in the tail, the jobs that would complete last: it comes before others of its priority."
    if ranking.at_risk[here]:
        told["deadline"] = "Its deadline is at risk and can still be met: it comes before others of its priority."
    return told
