"""Times of jobs: left, had, waited, unsaved."""

from __future__ import annotations

import numpy as np
import pytest

from headway.policies.value.times import seconds_left, service, unsaved, waited
from make import a_job, a_snapshot, running, waiting

ROWS = np.arange(2)


def test_times_of_a_running_and_a_waiting_job():
    up = running(a_job("up", 2, submit=0.0), [0, 0], since=60.0, attained=30.0, service=60.0, saved=50.0)
    stopped = waiting(a_job("stopped", submit=10.0), since=90.0, attained=20.0, service=20.0)
    snapshot = a_snapshot(up, stopped, now=100.0, left={"up": 40.0})
    assert service(snapshot, ROWS).tolist() == [60.0 + 2 * 40.0, 20.0]
    assert waited(snapshot, ROWS).tolist() == [100.0 - 70.0, 90.0 - 20.0]
    assert unsaved(snapshot, ROWS).tolist() == [2 * 20.0, 0.0]
    assert seconds_left(snapshot, ROWS) == pytest.approx([40.0, np.nan], nan_ok=True)


@pytest.mark.parametrize(("nodes", "seconds"), [([0], 50.0), ([0, 0], 100.0), ([0] * 4, 200.0)])
def test_time_left_is_at_the_asked_for_size(nodes, seconds):
    """A job of two replicas with 100 seconds left at its present size, and a speed in proportion to replicas."""
    entry = running(a_job("a", 2, min=1, max=4), nodes)
    snapshot = a_snapshot(entry, left={"a": 100.0}, speed=lambda _job, counts: counts[0] / 2)
    assert seconds_left(snapshot, np.arange(1)).tolist() == [seconds]
