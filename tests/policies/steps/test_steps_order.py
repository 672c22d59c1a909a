"""Orders of jobs: by key, by class of priority, and which running jobs may be stopped."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.core.job import Can
from headway.policies.steps.order import FEW, by_key, priority_class, rows_to_stop
from make import a_job, a_snapshot, running, some_nodes

KEYS = [
    ("smallest first", [3.0, 1.0, 2.0], [1, 2, 0]),
    ("ties stay as they are", [1.0, 0.0, 1.0], [1, 0, 2]),
    ("a difference below a thousandth is a tie", [1.0002, 1.0001], [0, 1]),
    ("NaN and infinity come last", [math.nan, math.inf, 5.0], [2, 0, 1]),
]


@pytest.mark.parametrize(("why", "key", "order"), KEYS)
@pytest.mark.parametrize("more", [0, FEW + 1])
def test_by_key(why, key, order, more):
    """The same with few rows and with many, which are sorted in another way."""
    rows = np.arange(len(key) + more)
    ordered = by_key(rows, np.array([*key, *[1e9 + n for n in range(more)]]))
    finite = [row for row in order if math.isfinite(key[row])]
    assert ordered[: len(finite)].tolist() == finite, why
    assert [row for row in ordered.tolist() if row < len(key)] == order, why


CLASSES = [
    ("all alike", (), [("ann", 0), ("bob", 0)], [0, 0]),
    ("the job's own priority", (), [("ann", 1), ("bob", 5)], [1, 0]),
    ("the user's comes before the job's", (("ann", 2.0),), [("ann", 0), ("bob", 9)], [0, 1]),
    ("users who are not named are all alike", (("ann", -1.0),), [("bob", 0), ("cid", 0), ("ann", 0)], [0, 0, 1]),
]


@pytest.mark.parametrize(("why", "given", "jobs", "classes"), CLASSES)
def test_classes_of_priority(why, given, jobs, classes):
    snapshot = a_snapshot(*(a_job(f"j{n}", user=user, priority=own) for n, (user, own) in enumerate(jobs)))
    assert priority_class(snapshot, np.arange(len(jobs)), given, 0.0).tolist() == classes, why


STOPPABLE = [
    ("all", {}, {}, [0, 1]),
    ("one forbids it", {"can": Can.SCALE}, {}, [1]),
    ("one cannot save", {"checkpoints": False}, {}, [1]),
    ("one was started this very moment", {}, {"touched": 100.0}, [1]),
]


@pytest.mark.parametrize(("why", "job", "columns", "rows"), STOPPABLE)
def test_which_running_jobs_may_be_stopped(why, job, columns, rows):
    entries = (running(a_job("a", **job), [0], **columns), running(a_job("b"), [0]), a_job("c"))
    assert rows_to_stop(a_snapshot(*entries, nodes=some_nodes(1), now=100.0)).tolist() == rows, why
