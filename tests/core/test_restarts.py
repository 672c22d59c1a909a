"""How often a job starts again: the cluster's limits, what a job asks for, and what of it is allowed."""

from __future__ import annotations

import pytest

from headway.core.restarts import RestartLimits, Restarts

CLUSTER = RestartLimits(losses=3, window_seconds=3600, refusals=10, max=20, min_window=60)


@pytest.mark.parametrize(
    ("asked", "losses", "window", "refusals", "refused"),
    [
        (Restarts(), 3, 3600, 10, ""),
        (Restarts(losses=0), 0, 3600, 10, ""),
        (Restarts(losses=20, window=7200, refusals=1), 20, 7200, 1, ""),
        (Restarts(losses=21), 20, 3600, 10, "losses: must be at most 20, not 21"),
        (Restarts(refusals=1000), 3, 3600, 20, "refusals: must be at most 20, not 1000"),
        (Restarts(window=1), 3, 60, 10, "window: must be at least 60 seconds, not 1"),
    ],
)
def test_a_job_has_the_limits_that_it_asks_for_as_far_as_the_cluster_allows(asked, losses, window, refusals, refused):
    held = CLUSTER.of(asked)
    assert (held.losses, held.window_seconds, held.refusals) == (losses, window, refusals)
    assert CLUSTER.refusal(asked) == refused


def test_what_the_cluster_itself_has_may_always_be_asked_for():
    lenient = RestartLimits(losses=500, window_seconds=10, refusals=900, max=20)
    assert lenient.refusal(Restarts(losses=500, window=10, refusals=900)) == ""
    assert lenient.of(Restarts(losses=500)).losses == 500
